#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace axonn {

// Adds a line to starts.jsonl of a run's directory (docs/running.md): the steps done when a job
// started, its ranks and its configuration, a JSON object. Lines of starts that did no step which
// is kept go, as their metrics do. Only for rank 0.
void record_start(const std::filesystem::path& directory, int64_t step, int64_t ranks,
                  const std::string& configuration);

}  // namespace axonn
