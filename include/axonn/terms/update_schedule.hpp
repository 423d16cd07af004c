#pragma once

#include <cstdint>
#include <string_view>

#include "axonn/core/names.hpp"

namespace axonn {

// How an update of weights is divided among the replicas of a network (CoCoNet, section 4).
//   ar_opt     all-reduce the gradients; every replica updates everything
//   rs_opt_ag  reduce-scatter them; every replica updates its part, with its part of the state;
//              all-gather the weights
//   fuse       the same, with the computation in the collectives
enum class UpdateSchedule : uint8_t { ar_opt, rs_opt_ag, fuse };

template <>
struct Names<UpdateSchedule> {
  static constexpr Named<UpdateSchedule> all[] = {
      {"ar-opt", UpdateSchedule::ar_opt}, {"rs-opt-ag", UpdateSchedule::rs_opt_ag}, {"fuse", UpdateSchedule::fuse}};
};

// Whether master weights and state are divided among the replicas.
inline bool divides(UpdateSchedule schedule) { return schedule != UpdateSchedule::ar_opt; }
// The same of a schedule's name. UserError that begins with `what` if there is none of this name.
inline bool divides(std::string_view schedule, std::string_view what) {
  return divides(parse_name<UpdateSchedule>(schedule, what));
}

}  // namespace axonn
