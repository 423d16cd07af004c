#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

namespace axonn {

// How the factors of several reduction axes at one hardware level become one level of the synthesis
// hierarchy (P2, section 2.5). The sizes are the same either way.
enum class AxisCollapse : uint8_t {
  hardware,  // by position: a level of the hierarchy consists of the factors at that hardware level
  // Only by size, with devices numbered axis by axis, as the paper's measurements suggest. Groups
  // then cross nodes unnecessarily.
  paper,
};

// Hierarchy (d) of the paper, section 3.4: for each hardware level the product of the reduction
// axes' factors, and the groups of devices to reduce.
struct SynthesisHierarchy {
  std::vector<int> sizes;                // outermost first; 1 where no reduction axis is split
  std::vector<std::vector<int>> groups;  // every group to reduce; devices in the order of the hierarchy's digits
};

// `reduce_axes` are rows of the matrix, ascending. UserError for a row that the matrix lacks or
// that is named twice. With one reduction axis, member i of a group has coordinate i.
SynthesisHierarchy synthesis_hierarchy(const ParallelismMatrix& matrix, std::span<const int> reduce_axes,
                                       AxisCollapse collapse = AxisCollapse::hardware);

// The paper's language (section 3.3). A hierarchy of n sizes has the levels 0 (the root, one group
// of all devices) and 1 .. n, outermost first.
enum class InstructionForm : uint8_t { inside_group, parallel, master };

struct ReductionInstruction {
  int slice = 0;
  InstructionForm form = InstructionForm::inside_group;
  int ancestor = 0;  // parallel and master: a level above the slice
  Collective collective = Collective::all_reduce;
  bool operator==(const ReductionInstruction&) const = default;
};
using InstructionProgram = std::vector<ReductionInstruction>;

// "(gpu, Parallel(root), AllReduce)". `levels` are the names of levels 1 .. n.
std::string to_string(const ReductionInstruction& instruction, std::span<const std::string> levels);

// An instruction's groups, as indices 0 .. product-1 of the hierarchy, outermost digit slowest.
// Empty if each group has one device.
//   inside_group   one group for each prefix of digits up to the slice
//   parallel       one for each prefix up to the ancestor and each suffix below the slice
//   master         as parallel, but only with the suffix of zeros
std::vector<std::vector<int>> instruction_groups(std::span<const int> sizes, const ReductionInstruction& instruction);

enum class SynthesisLanguage : uint8_t {
  paper,  // groups that only Master forms take only all-reduce: reproduces all totals of the paper's appendix
  full,   // every set of groups takes all five collectives, as in the paper's text
};

// Every instruction of a hierarchy, one per pair of a set of groups and a collective.
std::vector<ReductionInstruction> instructions(std::span<const int> sizes, SynthesisLanguage language);

struct SynthesisOptions {
  SynthesisLanguage language = SynthesisLanguage::full;
  ReductionGoal goal = ReductionGoal::all_reduce;
  int length_limit = 5;  // as in the paper
};

// Every program of at most length_limit instructions that reaches the goal (section 3.5), shortest
// first, in a fixed order. Levels of size 1 take no part. The sizes of the other levels do not
// matter, because an instruction always covers whole levels. So the search runs on levels of two
// devices. UserError for more than 5 levels of several devices.
std::vector<InstructionProgram> synthesize(std::span<const int> sizes, const SynthesisOptions& options);

// The program on the hierarchy's devices: every group runs the same instructions (section 3.4).
ReductionProgram lower(const InstructionProgram& program, const SynthesisHierarchy& hierarchy);

}  // namespace axonn
