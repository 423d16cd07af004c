#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/step_names.hpp"

namespace axonn {

// The file of a sample that is drawn after this step, samples/step-000500.png. Makes its folder.
inline std::filesystem::path sample_file(const std::filesystem::path& run_directory, int64_t step,
                                         const std::string& suffix) {
  const std::filesystem::path folder = run_directory / "samples";
  std::filesystem::create_directories(folder);
  return folder / (step_name(step) + suffix);
}

}  // namespace axonn
