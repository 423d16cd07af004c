#pragma once

#include <string>
#include <vector>

#include "axonn/perfmodel/fit/measured_runs.hpp"

namespace axonn {

// The runs of a directory of `gpt` or `unet`; see read_runs().
std::vector<MeasuredRun> runs_of_folder(const std::string& folder, const Machine& machine);

}  // namespace axonn
