#include "coconet/proofs/executed.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/core/error.hpp"
#include "axonn/grid/block_owners.hpp"
#include "coconet/proofs/flipped.hpp"
#include "coconet/support/rank_runs.hpp"

namespace axonn::coconet::proofs {
namespace {

using Values = std::map<std::string, OracleResult>;

constexpr double kTolerance = 1e-9;
constexpr double kRounding = 4;  // times the original's own error

// Words of the errors of SchedulePlan, PlanExecutor and StageChain, and their meaning. An error
// that is not here is a difference.
constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"are in one queue, and would wait for each other", "two collectives in an overlap"},
    {"needs one producer and then one collective", "an overlap of other steps than producer, collective"},
    {"must be an all_reduce, or a reduce_scatter fused with", "an overlap whose collective does not sum and gather"},
    {"cannot follow the messages", "an overlap of parts that are not rows or elements"},
    {"does not compute; leave the overlap out", "an overlap that sums another value"},
    {"lies in slices, and other slices than the parts", "slices in an overlap"},
    {"is a sum over a slice, and parts are other slices", "sums over slices in an overlap"},
    {"computations fused with one send, and the all_gather", "an overlap with a send and other steps"},
    {"needs one type of what is summed and sent", "another type sent than summed in an overlap"},
    {"is a number; leave its send out", "a number sent in a fused section"},
    {"needs values of one group", "several groups in a fused section"},
    {"all sliced tensors need one shape", "slices of several shapes"},
    {"needs a matmul of whole operands", "conv2d, or a layer on other slices"},
    {"sums must be over the last dims", "sums over other than the last dims"},
    {"every rank would compute all of it", "computation fused with an all_reduce"},
    {"needs at most one collective that gathers or sends", "two gathers in a fused section"},
    {"needs all_gather with reduce_scatter", "collectives that do not pair in a fused section"},
    {"needs values that lie alike", "values that lie in different ways in a fused section"},
    {"values of this kernel must wait outside registers", "more values than a kernel has registers"},
    {"a kernel has at most", "more streams, sums or masks than a kernel has"},
    {"dropout needs a tensor of the loop's shape", "dropout of a number or of a smaller tensor"},
};

Expression in_fp64(const Expression& expression) {
  if (expression.operands().empty()) return expression;
  std::vector<Expression> operands;
  for (const Expression& operand : expression.operands()) operands.push_back(in_fp64(operand));
  Attributes attributes = expression.attributes();
  attributes.element = ElementType::fp64;
  return Expression::of(expression.operation(), std::move(operands), attributes);
}

Program in_fp64(const Program& program) {
  ProgramParts parts = program.parts();
  for (Declaration& declaration : parts.declarations) declaration.type.element = ElementType::fp64;
  for (Statement& statement : parts.statements) statement.expression = in_fp64(statement.expression);
  return Program(std::move(parts));
}

// The unit of rounding of the narrowest type in a program's text; 0: all is fp64.
double rounding_of(const Program& program) {
  const std::string text = to_text(program);
  const auto has = [&](std::string_view type) { return text.find(type) != std::string::npos; };
  return has("bf16") ? 0x1p-8 : has("fp16") ? 0x1p-11 : has("fp32") ? 0x1p-24 : 0;
}

// Tensors of some elements, now and then of several blocks of an arena.
SizeValues sizes_for(const RandomProgram& random, Dice& dice) {
  if (dice.chance(80)) return random.sizes;
  constexpr double kElements = 6000;
  SizeValues sizes = random.sizes;
  const auto most = static_cast<int>(2 * std::pow(kElements, 1.0 / static_cast<double>(sizes.size())));
  for (auto& [symbol, size] : sizes) size = dice.between(1, most);
  return sizes;
}

// An end of a block lies within the largest tensor, so that two ranks or more own some of it.
int64_t offset_for(const Program& program, const SizeValues& sizes, Dice& dice) {
  int64_t largest = 1;
  for (const Declaration& declaration : program.declarations())
    largest = std::max(largest, count_of(extents_of(declaration.type.shape, sizes)));
  const int most = static_cast<int>(std::min(largest, BlockOwners::kBlock));
  return BlockOwners::kBlock * dice.between(1, 4) - dice.below(most);
}

// Numbers that every type holds.
OracleInputs rounded(OracleInputs inputs) {
  for (auto& [tensor, parts] : inputs)
    for (std::vector<double>& part : parts)
      for (double& number : part) number = std::round(number * 128) / 128;
  return inputs;
}

// Each value of a result as a result of its own.
Values values_of(const OracleResult& result) {
  Values values;
  for (const auto& [name, value] : result.outputs) values["output " + name].outputs[name] = value;
  for (const auto& [name, value] : result.states) values["state " + name].states[name] = value;
  return values;
}

// The largest difference of two elements, as difference() measures it; infinity for a NaN beside a
// number.
double distance(const OracleResult& a, const OracleResult& b) {
  const OracleValue &x = a.outputs.empty() ? a.states.begin()->second : a.outputs.begin()->second,
                    &y = b.outputs.empty() ? b.states.begin()->second : b.outputs.begin()->second;
  double most = 0;
  for (size_t part = 0; part < x.parts.size(); ++part)
    for (size_t i = 0; i < x.parts[part].size(); ++i) {
      const double p = x.parts[part][i], q = y.parts.at(part).at(i);
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      const double far = std::fabs(p - q) / std::max({1.0, std::fabs(p), std::fabs(q)});
      most = std::max(most, std::isfinite(far) ? far : std::numeric_limits<double>::infinity());
    }
  return most;
}

// The values that are the same under every cut.
Values under_every_cut(const Program& program, const OracleInputs& inputs, OracleOptions options) {
  Values values = values_of(run_oracle(program, inputs, options));
  constexpr int64_t kOnOneRank = 1 << 30;
  for (const Cut cut : {Cut::cyclic(1), Cut::cyclic(3, 2), Cut::cyclic(kOnOneRank)}) {
    options.cut = cut;
    const Values others = values_of(run_oracle(program, inputs, options));
    std::erase_if(values, [&](const auto& value) {
      return !difference(value.second, others.at(value.first), kTolerance).empty();
    });
  }
  return values;
}

// A schedule that the executor runs, and its original.
class Comparison {
 public:
  Comparison(const RandomProgram& random, const Program& scheduled, SizeValues sizes)
      : random_(random),
        scheduled_(scheduled),
        wide_original_(in_fp64(random.program)),
        wide_(in_fp64(scheduled)),
        sizes_(std::move(sizes)),
        unit_(std::max(rounding_of(random.program), rounding_of(scheduled))),
        with_original(refusal_of(random.program, sizes_).empty()) {}

  // "" or the first difference, for inputs from the dice.
  std::string difference_of_one(Dice& dice) {
    OracleOptions options{.ranks = random_.ranks, .sizes = sizes_, .cut = {}, .scalars = {}};
    options.seed = dice.seed();
    offset_ = offset_for(random_.program, sizes_, dice);
    const OracleInputs inputs = random_inputs(random_.program, options, dice.seed());
    const std::string in_wide = difference_in_fp64(inputs, options);
    return in_wide.empty() && is_narrow() ? difference_in_own_types(rounded(inputs), options) : in_wide;
  }

  bool is_narrow() const { return with_original && unit_ > 0; }

 private:
  Values executed(const Program& program, const OracleInputs& inputs, const OracleOptions& options) const {
    return values_of(run_on_ranks(program, inputs, options, offset_));
  }

  std::string difference_in_fp64(const OracleInputs& inputs, const OracleOptions& options) {
    const Values expected = under_every_cut(random_.program, inputs, options), got = executed(wide_, inputs, options);
    values = std::ssize(got);
    cut_values = values - std::ssize(expected);
    const auto changed = [&](const OracleInputs& others) {
      return values_of(run_oracle(random_.program, others, options));
    };
    std::string found = first_difference("in fp64, oracle and executor", expected, got, inputs, changed);
    if (!found.empty() || !with_original) return found;
    return first_difference("in fp64, original and schedule", executed(wide_original_, inputs, options), got, inputs,
                            [&](const OracleInputs& others) { return executed(wide_original_, others, options); });
  }

  // "" or the first value that differs from the one of the same name, and is not excused.
  std::string first_difference(const std::string& what, const Values& some, const Values& all,
                               const OracleInputs& inputs, const std::function<Values(const OracleInputs&)>& changed) {
    for (const auto& [name, value] : some)
      if (const std::string found = judge(value, all.at(name), kTolerance,
                                          [&](int n) { return changed(with_changes(inputs, 0x1p-52, n)).at(name); });
          !found.empty())
        return what + ": " + found;
    return "";
  }

  std::string judge(const OracleResult& expected, const OracleResult& got, double tolerance,
                    const std::function<OracleResult(int)>& changed) {
    const Verdict verdict = judged(expected, got, tolerance, has_comparison(random_.program), changed);
    excused = excused || verdict.comparisons + verdict.infinities > 0;
    return verdict.difference;
  }

  // A value that rounding turns into a NaN or an infinity is not compared.
  std::string difference_in_own_types(const OracleInputs& inputs, const OracleOptions& options) {
    const Values exact = executed(wide_original_, inputs, options),
                 original = executed(random_.program, inputs, options), got = executed(scheduled_, inputs, options);
    same_bits = true;
    for (const auto& [name, value] : original) {
      same_bits = same_bits && difference(value, got.at(name), 0).empty();
      const double error = distance(value, exact.at(name));
      if (!std::isfinite(error)) continue;
      const std::string found = judge(value, got.at(name), kRounding * (error + 4 * unit_), [&](int n) {
        return executed(random_.program, with_changes(inputs, unit_, n), options).at(name);
      });
      if (!found.empty()) return "in their own types, original and schedule: " + found;
    }
    return "";
  }

  const RandomProgram& random_;
  const Program& scheduled_;
  const Program wide_original_, wide_;
  const SizeValues sizes_;
  const double unit_;
  int64_t offset_ = 0;

 public:
  const bool with_original;
  bool same_bits = false, excused = false;
  int64_t values = 0, cut_values = 0;
};

}  // namespace

bool Executions::refuses(const Program& scheduled, const SizeValues& sizes) {
  const std::string refusal = refusal_of(scheduled, sizes);
  if (refusal.empty()) return false;
  for (const auto& [text, reason] : kReasons)
    if (refusal.find(text) != std::string::npos) {
      ++refused_[reason];
      return true;
    }
  throw UserError("coconet.proofs", "a program is refused for a reason that is not in the table: " + refusal);
}

std::string Executions::difference_of(const RandomProgram& random, const Program& scheduled, Dice& dice) {
  const SizeValues sizes = sizes_for(random, dice);
  ++tried_;
  if (refuses(scheduled, sizes)) return "";
  ++ran_;
  Comparison comparison(random, scheduled, sizes);
  std::string found = comparison.difference_of_one(dice);
  const auto overlaps = [](const Section& section) { return section.kind == SectionKind::overlap; };
  overlapped_ += std::ranges::any_of(scheduled.sections(), overlaps) ? 1 : 0;
  const std::vector<Statement>& statements = scheduled.statements();
  sending_ += std::ranges::any_of(statements, [](const auto& one) { return one.expression.is(Operation::send); });
  with_original_ += comparison.with_original ? 1 : 0;
  narrow_ += comparison.is_narrow() ? 1 : 0;
  same_bits_ += comparison.same_bits ? 1 : 0;
  excused_ += comparison.excused ? 1 : 0;
  values_ += comparison.values;
  cut_values_ += comparison.cut_values;
  return found;
}

std::string Executions::compare(const RandomProgram& random, const Program& scheduled, Dice& dice) {
  std::string found;
  try {
    found = difference_of(random, scheduled, dice);
  } catch (const std::exception& error) {
    found = error.what();
  }
  differ_ += found.empty() ? 0 : 1;
  return found;
}

std::string Executions::to_text() const {
  std::ostringstream text;
  text << tried_ << " programs for the executor, which refuses\n";
  for (const auto& [reason, programs] : refused_)
    text << "  " << std::left << std::setw(54) << reason << programs << "\n";
  text << ran_ << " of them executed too, " << overlapped_ << " with overlaps, " << sending_
       << " with sends: " << differ_ << " differ; " << with_original_
       << " compared with their executed original too,\n  " << narrow_ << " of these in narrow types, " << same_bits_
       << " of these with the same bits; " << cut_values_ << " of " << values_ << " results depend on the cut; "
       << excused_ << " programs with excused elements\n";
  return std::move(text).str();
}

}  // namespace axonn::coconet::proofs
