#pragma once

#include <string>

namespace axonn::overlap {

// How an executor runs a plan where the schedule leaves it open, as NCCL's protocols and channels
// do in CoCoNet, section 4. All ranks of a group have the same. No setting changes a bit.
struct RunSettings {
  int threads = 0;  // at most, of computations that are in no collective; 0: all of the process
  bool operator==(const RunSettings&) const = default;
};

inline std::string to_string(const RunSettings& settings) { return "threads=" + std::to_string(settings.threads); }

}  // namespace axonn::overlap
