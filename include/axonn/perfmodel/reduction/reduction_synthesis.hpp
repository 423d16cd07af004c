#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

namespace axonn {

// How factors of several reduction axes at one hardware level become one level of the synthesis hierarchy (P2, section 2.5). Same sizes
// either way.
enum class AxisCollapse : uint8_t {
  hardware,  // by position: a level of the hierarchy is what lies at that level of the hardware
  paper,     // sizes alone, with devices numbered axis by axis, as the paper's measurements suggest: groups then cross nodes that they need
             // not cross
};

// Hierarchy (d) of the paper, section 3.4: per hardware level the product of the reduction axes' factors, and the devices that it stands
// for.
struct SynthesisHierarchy {
  std::vector<int> sizes;                // outermost first; 1 where no reduction axis is split
  std::vector<std::vector<int>> groups;  // every group that is to be reduced, its devices in the order of the hierarchy's digits
};

// `reduce_axes` are rows of the matrix, ascending. UserError for rows that it has not, or twice the same. With one axis member i of a group
// has coordinate i.
SynthesisHierarchy synthesis_hierarchy(const ParallelismMatrix& matrix, std::span<const int> reduce_axes,
                                       AxisCollapse collapse = AxisCollapse::hardware);

// The paper's language (section 3.3). Levels of a hierarchy of n sizes are 0 (root, one device group of all) and 1 .. n, outermost first.
enum class InstructionForm : uint8_t { inside_group, parallel, master };

struct ReductionInstruction {
  int slice = 0;
  InstructionForm form = InstructionForm::inside_group;
  int ancestor = 0;  // of parallel and master: a level above the slice
  Collective collective = Collective::all_reduce;
  bool operator==(const ReductionInstruction&) const = default;
};
using InstructionProgram = std::vector<ReductionInstruction>;

// "(gpu, Parallel(root), AllReduce)"; `levels` names levels 1 .. n.
std::string to_string(const ReductionInstruction& instruction, std::span<const std::string> levels);

// The groups of slice and form, as digits-first indices 0 .. product-1 of the hierarchy; empty when any of them is of one device.
//   inside_group: one group for each prefix of digits up to the slice
//   parallel: one for each prefix up to the ancestor and each suffix below the slice
//   master: as parallel with a suffix of zeros, under every prefix
std::vector<std::vector<int>> instruction_groups(std::span<const int> sizes, const ReductionInstruction& instruction);

enum class SynthesisLanguage : uint8_t {
  paper,  // groups that only Master can make carry all-reduce alone: reproduces all totals of the paper's appendix
  full,   // every group set carries all five collectives, as the paper's text says
};

// Every instruction of a hierarchy, once per set of groups and collective.
std::vector<ReductionInstruction> instructions(std::span<const int> sizes, SynthesisLanguage language);

struct SynthesisOptions {
  SynthesisLanguage language = SynthesisLanguage::full;
  ReductionGoal goal = ReductionGoal::all_reduce;
  int length_limit = 5;  // the paper's
};

// Every program of at most length_limit instructions that reaches the goal (section 3.5), shortest first, in a fixed order. Levels of size
// 1 take no part, and the sizes of the others do not matter: a program moves whole levels. So the search runs on levels of two devices, at
// most 5 of them.
std::vector<InstructionProgram> synthesize(std::span<const int> sizes, const SynthesisOptions& options);

// Which groups of devices run what: every group of the hierarchy does the same (section 3.4).
ReductionProgram lower(const InstructionProgram& program, const SynthesisHierarchy& hierarchy);

}  // namespace axonn
