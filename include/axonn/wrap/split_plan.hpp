#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// How the output of a typed member stays split until the next one takes it; see nn.hpp.
struct KeepSplit {
  // Features of one head stay on one rank: the output is split if the axis divides the heads, and
  // else gathered. 0: any feature may be the first of a rank.
  int64_t heads = 0;
  // The output features are so many equal parts, each split by itself: 3 for q|k|v. The next member
  // takes as many features as one part has.
  int64_t parts = 1;
  bool operator==(const KeepSplit&) const = default;
};

// by_output: the output stays split, as the first member of keep_split() leaves it (column-wise).
// by_input: takes split what members by_output leave, as the second one of keep_split() (row-wise).
// whole: every rank along X and Y has the weight and computes all of it.
enum class Split : uint8_t { by_output, by_input, whole };

// One line of a plan that parallelize() follows, in place of keep_split() in the module.
struct NamedSplit {
  std::string members;  // full names, in which * stands for any text without a dot: "blocks.*.up"
  Split split = Split::whole;
  KeepSplit keep = {};  // with by_output
};

// Among the members of one module, one by_input takes what those by_output leave that stand before
// it in the plan, back to the last one by_input:
//
//   {{"blocks.*.qkv", Split::by_output, {.heads = 4, .parts = 3}},
//    {"blocks.*.out", Split::by_input},
//    {"blocks.*.gate", Split::by_output},
//    {"blocks.*.up", Split::by_output},
//    {"blocks.*.down", Split::by_input},
//    {"scores", Split::whole}}
//
// UserError of parallelize() that names what fits no line or is no typed member (nn.hpp): calls of
// LibTorch's own types cannot be seen, and a Sequential keeps its activations split by itself. Its
// children can be `whole` only.
using SplitPlan = std::vector<NamedSplit>;

}  // namespace axonn
