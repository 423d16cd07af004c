#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <axonn/config/codecs.hpp>
#include <axonn/grid/grid_shape.hpp>

// Values of flags that only the planner has, and how they are written.

// The size that an axis must have: "x=4".
struct FixedAxis {
  axonn::Axis axis = axonn::Axis::x;
  int size = 1;
};

// Numbers of GPUs: "64", or "8..4096": 8, 16, 32, ... up to 4096.
struct GpuCounts {
  std::vector<int64_t> counts;
};

enum class Launcher : uint8_t { srun, mpirun };
enum class ReductionChoice : uint8_t { automatic, ring };

namespace axonn {

template <>
struct Codec<FixedAxis> {
  static FixedAxis parse(std::string_view text, std::string_view what);
  static std::string print(const FixedAxis& fixed);
  static std::string type() { return "AXIS=SIZE"; }
};

template <>
struct Codec<GpuCounts> {
  static GpuCounts parse(std::string_view text, std::string_view what);
  static std::string print(const GpuCounts& range);
  static std::string type() { return "N|N..M"; }
};

template <>
struct Names<Launcher> {
  static constexpr Named<Launcher> all[] = {{"srun", Launcher::srun}, {"mpirun", Launcher::mpirun}};
};

template <>
struct Names<ReductionChoice> {
  static constexpr Named<ReductionChoice> all[] = {{"auto", ReductionChoice::automatic},
                                                   {"ring", ReductionChoice::ring}};
};

}  // namespace axonn
