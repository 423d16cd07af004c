#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "perfmodel/reduction/reduction_search.hpp"

namespace axonn {
namespace {

constexpr int kMostLevels = 5;

using Groups = std::vector<std::vector<int>>;

int product(std::span<const int> sizes) { return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies()); }

// offsets() returns every sum of value * stride over the digits, the first digit slowest.
struct Digit {
  int size;
  int stride;
};
std::vector<int> offsets(std::span<const Digit> digits) {
  std::vector<int> found = {0};
  for (const Digit& digit : digits) {
    std::vector<int> next;
    next.reserve(found.size() * static_cast<size_t>(digit.size));
    for (const int base : found)
      for (int value = 0; value < digit.size; ++value) next.push_back(base + value * digit.stride);
    found = std::move(next);
  }
  return found;
}

// Groups of the levels (ancestor, slice]: one for each prefix above and each suffix below; with
// `master` only for the suffix of zeros.
Groups groups_of_levels(std::span<const int> sizes, int ancestor, int slice, bool master) {
  const auto above = static_cast<size_t>(ancestor), below = static_cast<size_t>(slice);
  const int suffixes = product(sizes.subspan(below)), members = product(sizes.subspan(above, below - above));
  Groups groups;
  if (members == 1) return groups;
  for (int prefix = 0; prefix < product(sizes.first(above)); ++prefix)
    for (int suffix = 0; suffix < (master ? 1 : suffixes); ++suffix) {
      std::vector<int> group;
      for (int member = 0; member < members; ++member) group.push_back((prefix * members + member) * suffixes + suffix);
      groups.push_back(std::move(group));
    }
  return groups;
}

std::string_view paper_name(Collective collective) {
  constexpr std::array<std::string_view, 5> kNames = {"AllReduce", "ReduceScatter", "AllGather", "Reduce", "Broadcast"};
  return kNames.at(static_cast<size_t>(collective));
}

ReductionProgram lowered_on(std::span<const int> sizes, const InstructionProgram& program,
                            std::span<const std::vector<int>> devices) {
  ReductionProgram found;
  for (const ReductionInstruction& instruction : program) {
    ReductionStep step = {.collective = instruction.collective};
    const Groups local = instruction_groups(sizes, instruction);
    AXONN_CHECK(!local.empty(), "perfmodel.lower", "an instruction on levels of one device each reduces nothing");
    for (const auto& members : devices)
      for (const auto& group : local) {
        auto& mapped = step.groups.emplace_back();
        for (const int index : group) mapped.push_back(members[static_cast<size_t>(index)]);
      }
    found.steps.push_back(std::move(step));
  }
  return found;
}

}  // namespace

SynthesisHierarchy synthesis_hierarchy(const ParallelismMatrix& matrix, std::span<const int> reduce_axes,
                                       AxisCollapse collapse) {
  std::vector<char> reduced(static_cast<size_t>(matrix.axes), 0);
  for (const int axis : reduce_axes) {
    AXONN_CHECK(axis >= 0 && axis < matrix.axes, "perfmodel.synthesis_hierarchy", "there is no axis ", axis, " in ",
                matrix.to_string());
    AXONN_CHECK(reduced[static_cast<size_t>(axis)]++ == 0, "perfmodel.synthesis_hierarchy", "reduction axis ", axis,
                " is named twice");
  }
  SynthesisHierarchy hierarchy;
  std::vector<Digit> inside, outside;
  std::vector<int> stride(matrix.factors.size());
  int count = 1;
  for (int level = matrix.levels - 1; level >= 0; --level)
    for (int axis = matrix.axes - 1; axis >= 0; --axis) {
      stride[static_cast<size_t>(axis * matrix.levels + level)] = count;
      count *= matrix.factor(axis, level);
    }
  const auto digit = [&](int axis, int level) {
    return Digit{matrix.factor(axis, level), stride[static_cast<size_t>(axis * matrix.levels + level)]};
  };
  for (int level = 0; level < matrix.levels; ++level) {
    int size = 1;
    for (int axis = 0; axis < matrix.axes; ++axis) {
      const bool reduces = reduced[static_cast<size_t>(axis)] != 0;
      if (reduces) size *= matrix.factor(axis, level);
      if (!reduces)
        outside.push_back(digit(axis, level));
      else if (collapse == AxisCollapse::hardware)
        inside.push_back(digit(axis, level));
    }
    hierarchy.sizes.push_back(size);
  }
  if (collapse == AxisCollapse::paper)
    for (int axis = 0; axis < matrix.axes; ++axis)
      for (int level = 0; level < matrix.levels && reduced[static_cast<size_t>(axis)] != 0; ++level)
        inside.push_back(digit(axis, level));
  const auto members = offsets(inside);
  for (const int base : offsets(outside)) {
    auto& group = hierarchy.groups.emplace_back(members);
    for (int& device : group) device += base;
  }
  return hierarchy;
}

std::string to_string(const ReductionInstruction& instruction, std::span<const std::string> levels) {
  const auto name = [&](int level) {
    return level == 0 ? std::string("root") : levels[static_cast<size_t>(level) - 1];
  };
  std::string form = "InsideGroup";
  if (instruction.form != InstructionForm::inside_group)
    form = (instruction.form == InstructionForm::parallel ? "Parallel(" : "Master(") + name(instruction.ancestor) + ")";
  return detail::concatenate("(", name(instruction.slice), ", ", form, ", ", paper_name(instruction.collective), ")");
}

Groups instruction_groups(std::span<const int> sizes, const ReductionInstruction& instruction) {
  const int levels = static_cast<int>(sizes.size());
  const bool inside = instruction.form == InstructionForm::inside_group;
  AXONN_CHECK(instruction.slice >= 0 && instruction.slice <= levels, "perfmodel.instruction_groups",
              "there is no level ", instruction.slice, " in a hierarchy of ", levels);
  AXONN_CHECK(inside || (instruction.ancestor >= 0 && instruction.ancestor < instruction.slice),
              "perfmodel.instruction_groups", "level ", instruction.ancestor, " is not above level ",
              instruction.slice);
  if (inside) return groups_of_levels(sizes, instruction.slice, levels, false);
  return groups_of_levels(sizes, instruction.ancestor, instruction.slice, instruction.form == InstructionForm::master);
}

std::vector<ReductionInstruction> instructions(std::span<const int> sizes, SynthesisLanguage language) {
  const int levels = static_cast<int>(sizes.size());
  std::set<Groups> seen;
  std::vector<ReductionInstruction> found;
  for (const auto form : {InstructionForm::inside_group, InstructionForm::parallel, InstructionForm::master})
    for (int slice = 0; slice <= levels; ++slice)
      for (int ancestor = 0; ancestor < (form == InstructionForm::inside_group ? 1 : slice); ++ancestor) {
        ReductionInstruction instruction = {.slice = slice, .form = form, .ancestor = ancestor};
        auto groups = instruction_groups(sizes, instruction);
        if (groups.empty() || !seen.insert(std::move(groups)).second) continue;
        for (const Collective collective : kCollectives) {
          if (language == SynthesisLanguage::paper && form == InstructionForm::master &&
              collective != Collective::all_reduce)
            continue;
          instruction.collective = collective;
          found.push_back(instruction);
        }
      }
  return found;
}

std::vector<InstructionProgram> synthesize(std::span<const int> sizes, const SynthesisOptions& options) {
  std::vector<int> level_of = {0};  // hierarchy level of each level of the search
  for (size_t i = 0; i < sizes.size(); ++i) {
    AXONN_CHECK(sizes[i] >= 1, "perfmodel.synthesize", "sizes of a hierarchy must be at least 1, got ", sizes[i]);
    if (sizes[i] > 1) level_of.push_back(static_cast<int>(i) + 1);
  }
  const auto levels = level_of.size() - 1;
  AXONN_CHECK(levels <= kMostLevels, "perfmodel.synthesize", "programs are searched on at most ", kMostLevels,
              " levels of more than one device, got ", levels);
  const std::vector<int> twos(levels, 2);
  const int devices = product(twos);
  std::vector<int> all(static_cast<size_t>(devices));
  std::iota(all.begin(), all.end(), 0);
  const Groups whole = {all};
  const auto choices = instructions(twos, options.language);
  const auto steps = lowered_on(twos, choices, whole).steps;
  std::vector<InstructionProgram> programs;
  for (const auto& path : search_reductions(devices, steps, whole, options.goal, options.length_limit)) {
    auto& program = programs.emplace_back();
    for (const int choice : path) {
      ReductionInstruction instruction = choices[static_cast<size_t>(choice)];
      instruction.slice = level_of[static_cast<size_t>(instruction.slice)];
      instruction.ancestor = level_of[static_cast<size_t>(instruction.ancestor)];
      program.push_back(instruction);
    }
  }
  return programs;
}

ReductionProgram lower(const InstructionProgram& program, const SynthesisHierarchy& hierarchy) {
  return lowered_on(hierarchy.sizes, program, hierarchy.groups);
}

}  // namespace axonn
