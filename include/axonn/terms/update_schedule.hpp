#pragma once

#include <cstdint>

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

}  // namespace axonn
