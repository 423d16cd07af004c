#pragma once

#include "axonn/core/switches.hpp"

namespace axonn {

// The communication of a step that runs beside computation (Singh et al., AxoNN 4D, section IV-B),
// in the trainer and in the planner's times. A switch whose axis has one rank costs nothing.
struct OverlapSwitches {
  bool all_reduce = true;      // dI's all-reduce runs while dW is computed
  bool reduce_scatter = true;  // dW's reduce-scatter over Z is waited for at the end of the step
  bool all_gather = true;      // the weights needed next are gathered over Z while this layer computes
  bool cache = true;           // gathered weights stay, up to a budget, for recomputation, backward, next micro-batch
  bool buckets = true;         // gradients are summed over data in buckets, each sent when complete, during backward

  static OverlapSwitches none();
  bool operator==(const OverlapSwitches&) const = default;
};

template <>
struct Switches<OverlapSwitches> {
  static constexpr std::string_view kWhat = "overlap";
  static constexpr Switch<OverlapSwitches> kAll[] = {
      {"all-reduce", &OverlapSwitches::all_reduce}, {"reduce-scatter", &OverlapSwitches::reduce_scatter},
      {"all-gather", &OverlapSwitches::all_gather}, {"cache", &OverlapSwitches::cache},
      {"buckets", &OverlapSwitches::buckets},
  };
};

}  // namespace axonn
