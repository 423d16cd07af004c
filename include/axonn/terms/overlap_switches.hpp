#pragma once

#include <iterator>
#include <string>
#include <string_view>

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

struct OverlapSwitch {
  std::string_view name;
  bool OverlapSwitches::* on;
};
inline constexpr OverlapSwitch kOverlapSwitches[] = {
    {"all-reduce", &OverlapSwitches::all_reduce}, {"reduce-scatter", &OverlapSwitches::reduce_scatter},
    {"all-gather", &OverlapSwitches::all_gather}, {"cache", &OverlapSwitches::cache},
    {"buckets", &OverlapSwitches::buckets},
};

// Bit i switches on row i of the table. For loops over all combinations.
OverlapSwitches overlap_switches_of(unsigned bits);
inline constexpr unsigned kOverlapCombinations = 1u << std::size(kOverlapSwitches);

// Takes "all", "none", or some of "all-reduce,reduce-scatter,all-gather,cache,buckets". UserError
// with the nearest name.
OverlapSwitches parse_overlap_switches(std::string_view list);
std::string to_string(const OverlapSwitches& switches);  // what parse_overlap_switches() takes

// "all, none, or a list of all-reduce, reduce-scatter, ...", for help and errors.
std::string overlap_switches_help();

}  // namespace axonn
