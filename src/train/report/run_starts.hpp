#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace axonn {

// A line of starts.jsonl, and the configuration as a file.
struct RunStart {
  std::string start;          // its id
  std::string from;           // the checkpoint: its name, or its whole path in another directory; empty: none
  int64_t step = 0;           // steps done
  int64_t ranks = 1;          // the job's
  std::string configuration;  // a JSON object
  std::map<std::string, std::string> choices = {};  // see CheckpointState
  std::string environment = "{}";                   // environment_json()
  std::string config_toml = {};                     // the configuration, to be read by --config
};

// Adds a line to starts.jsonl of a run's directory (docs/running.md). Lines of starts that did no
// step which is kept go, as their metrics do. config.toml and environment.json are those of this
// start. Only for rank 0.
void record_start(const std::filesystem::path& directory, const RunStart& started);

}  // namespace axonn
