#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace axonn {

// A line of starts.jsonl.
struct RunStart {
  std::string start;          // its id
  std::string from;           // the checkpoint: its name, or its whole path in another directory; empty: none
  int64_t step = 0;           // steps done
  int64_t ranks = 1;          // the job's
  std::string configuration;  // a JSON object
  std::map<std::string, std::string> choices = {};  // see CheckpointState
};

// Adds a line to starts.jsonl of a run's directory (docs/running.md). Lines of starts that did no
// step which is kept go, as their metrics do. Only for rank 0.
void record_start(const std::filesystem::path& directory, const RunStart& started);

}  // namespace axonn
