#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

// A run as its directory tells it: metrics, starts, state, samples. Whatever is missing, torn or
// of another version is left out, and `problems` say so.

struct ReadingLimits {
  int64_t bins = 1024;  // per curve
  int64_t samples = 8;  // the last one, and others at equal distances before it
};

// The data of a run for the page. `name` is shown in the place of its directory. UserError if it
// is no directory, or has no metrics.jsonl that can be read.
nlohmann::ordered_json read_run(const std::string& directory, const std::string& name, const ReadingLimits& limits);

// Whether the run's job says that it is running.
bool is_running(const nlohmann::ordered_json& run);
