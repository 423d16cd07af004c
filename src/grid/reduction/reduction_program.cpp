#include "axonn/grid/reduction/reduction_program.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"all-reduce", "reduce-scatter", "all-gather", "reduce",
                                                    "broadcast"};

// Length of the longest run of ranks with equal strides that starts at `begin`; 1 when it is too
// short to be written as a run.
size_t run_length(std::span<const int> ranks, size_t begin) {
  if (begin + 2 >= ranks.size()) return 1;
  const int stride = ranks[begin + 1] - ranks[begin];
  size_t end = begin + 1;
  while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
  return stride >= 1 && end - begin >= 3 ? end - begin : 1;
}

std::string text_of(std::span<const int> group) {
  std::string text;
  for (size_t i = 0; i < group.size();) {
    const size_t length = run_length(group, i);
    text.append(text.empty() ? "" : "+").append(std::to_string(group[i]));
    if (length > 1) {
      text.append("-").append(std::to_string(group[i + length - 1]));
      if (const int stride = group[i + 1] - group[i]; stride > 1) text.append("@").append(std::to_string(stride));
    }
    i += length;
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

class StepParser {
 public:
  explicit StepParser(std::string_view text) : text_(text) {}

  ReductionStep step() const {
    const size_t colon = text_.find(':');
    complain(colon != std::string_view::npos, "has no ':' between collective and groups");
    ReductionStep found = {.collective = collective(trimmed(text_.substr(0, colon)))};
    for (const std::string_view group : split(text_.substr(colon + 1), ","))
      found.groups.push_back(ranks(trimmed(group)));
    return found;
  }

 private:
  void complain(bool fine, std::string_view what) const {
    AXONN_CHECK(fine, "grid.parse_reduction_program", "step '", text_, "' ", what,
                "; a program is written such as reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7");
  }

  Collective collective(std::string_view name) const {
    const auto found = std::ranges::find(kNames, name);
    if (found != kNames.end()) return kCollectives.at(static_cast<size_t>(found - kNames.begin()));
    const std::string nearest = did_you_mean(name, std::span<const std::string_view>(kNames));
    throw UserError("grid.parse_reduction_program",
                    detail::concatenate("unknown collective '", name, "'",
                                        nearest.empty() ? "; the collectives are " + join(kNames, ", ") : nearest));
  }

  std::vector<int> ranks(std::string_view group) const {
    std::vector<int> found;
    for (const std::string_view run : split(group, "+")) {
      const size_t dash = run.find('-'), at = run.find('@');
      const bool has_end = dash != std::string_view::npos;
      complain(at == std::string_view::npos || (has_end && at > dash), "has a stride '@' without a run a-b");
      const int begin = number(run.substr(0, std::min(dash, run.size())));
      const int end = has_end ? number(run.substr(dash + 1, at == std::string_view::npos ? at : at - dash - 1)) : begin;
      const int stride = at == std::string_view::npos ? 1 : number(run.substr(at + 1));
      complain(begin <= end && stride >= 1 && (end - begin) % stride == 0, "has a run that does not end where it says");
      complain((end - begin) / stride < kMostRanks, "has a run of more than a million ranks");
      for (int64_t rank = begin; rank <= end; rank += stride) found.push_back(static_cast<int>(rank));
    }
    return found;
  }

  int number(std::string_view digits) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    complain(error == std::errc() && end == digits.data() + digits.size() && value >= 0,
             "has a rank that is no whole number");
    return value;
  }

  static constexpr int kMostRanks = 1 << 20;
  std::string_view text_;
};

std::string name_of(const ReductionProgram& program, size_t step) {
  return detail::concatenate("step ", step + 1, " (", to_string(program.steps[step].collective), ")");
}

}  // namespace

std::string_view to_string(Collective collective) { return kNames.at(static_cast<size_t>(collective)); }

std::string ReductionProgram::to_string() const {
  const auto step_text = [](const ReductionStep& step) {
    return std::string(axonn::to_string(step.collective)) + ":" + join(step.groups, ",", text_of);
  };
  return steps.empty() ? "none" : join(steps, "/", step_text);
}

ReductionProgram parse_reduction_program(std::string_view text) {
  ReductionProgram program;
  if (trimmed(text) == "none") return program;
  for (const std::string_view part : split(trimmed(text), "/\n"))
    if (const std::string_view step = trimmed(part); !step.empty() || text.find('\n') == std::string_view::npos)
      program.steps.push_back(StepParser(step).step());
  return program;
}

void check_reduction_program(const ReductionProgram& program, int ranks) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto complain = [&](bool fine, const auto&... what) {
      AXONN_CHECK(fine, "grid.check_reduction_program", name_of(program, s), " ", what...);
    };
    complain(!program.steps[s].groups.empty(), "has no groups");
    std::vector<char> seen(static_cast<size_t>(std::max(0, ranks)), 0);
    for (const auto& group : program.steps[s].groups) {
      complain(group.size() >= 2, "has a group of ", group.size(), " ranks, need at least 2");
      for (const int rank : group) {
        complain(rank >= 0 && rank < ranks, "names rank ", rank, ", this job has ", ranks);
        complain(seen[static_cast<size_t>(rank)]++ == 0, "has rank ", rank, " twice");
      }
    }
  }
}

}  // namespace axonn
