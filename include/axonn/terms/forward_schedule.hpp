#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "axonn/core/names.hpp"
#include "axonn/terms/attention_rows.hpp"
#include "axonn/terms/norm_rows.hpp"

namespace axonn {

// How a row-parallel product or convolution MM, its sum over the ranks, and the computation C after
// it (bias, dropout, residual) run (CoCoNet, section on model parallelism).
//   mm_ar_c     the product, an all-reduce, then C on every rank
//   mm_rs_c_ag  the product, then one collective in which the owner of each element computes C
//   overlap     the same collective, which already reads the parts of the product that are finished
//   automatic   per group of ranks and product: overlap if the group sends messages between nodes
//               and the product has at least kSmallestOverlapped bytes; otherwise mm_ar_c
// If the ranks divide the rows of the result (NormRows), each does C for its own rows, and the
// all-gather follows only when all rows are needed: mm_ar_c is mm_rs_c_ag then.
enum class LinearSchedule : uint8_t { mm_ar_c, mm_rs_c_ag, overlap, automatic };
inline constexpr int64_t kSmallestOverlapped = int64_t{256} << 10;

template <>
struct Names<LinearSchedule> {
  static constexpr Named<LinearSchedule> all[] = {{"mm-ar-c", LinearSchedule::mm_ar_c},
                                                  {"mm-rs-c-ag", LinearSchedule::mm_rs_c_ag},
                                                  {"overlap", LinearSchedule::overlap},
                                                  {"auto", LinearSchedule::automatic}};
};

// Products summed since the start of a step, by what ran: the first three schedules.
using LinearCounts = std::array<int64_t, 3>;

// The schedules that ran, with their counts: {"overlap", 14}.
inline std::vector<std::pair<std::string_view, int64_t>> with_names(const LinearCounts& counts) {
  std::vector<std::pair<std::string_view, int64_t>> ran;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) ran.emplace_back(Names<LinearSchedule>::all[i].name, counts[i]);
  return ran;
}

// As a context in options: the best one, which the planner chooses with the grid.
inline constexpr int64_t kAutomaticContext = 0;

// How a forward pass runs beside its sums, which rows of attention and of the residual stream each
// rank has, and which tokens. All change rounding.
struct ForwardSchedule {
  int64_t split = 1;  // row parts that a block alternates between (layers/blocks/interleave.hpp)
  LinearSchedule linear = LinearSchedule::mm_ar_c;
  AttentionRows attention_rows = AttentionRows::off;
  NormRows norm_rows = NormRows::off;
  int64_t context = 1;  // neighbours along Z that divide each sequence (grid/context_ring.hpp); divides z
  bool needs_cpu() const { return linear == LinearSchedule::mm_rs_c_ag || linear == LinearSchedule::overlap; }
};

}  // namespace axonn
