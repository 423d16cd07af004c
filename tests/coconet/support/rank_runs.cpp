#include "coconet/support/rank_runs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include <ATen/ops/from_blob.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "axonn/overlap/execute/plan_executor.hpp"

namespace axonn::coconet {
namespace {

using Numbers = std::vector<double>;

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// One rank's executor, its inputs and its share of the results.
class RankRun {
 public:
  RankRun(const Program& program, Environment& environment, const OracleOptions& options, int64_t arena_offset,
          const RunSettings& run)
      : executor_(SchedulePlan(program), environment,
                  {.sizes = options.sizes, .arena_offset = arena_offset, .seed = options.seed, .run = run}),
        program_(program),
        options_(options),
        rank_(environment.rank() % options.ranks),
        group_(environment.rank() / options.ranks),
        offset_(arena_offset) {}

  void run(const OracleInputs& inputs) {
    for (const auto& [scalar, value] : options_.scalars) executor_.set(scalar, value);
    for (const auto& [tensor, parts] : inputs)
      if (is_here(tensor)) set(tensor, parts.size() > 1 ? parts[static_cast<size_t>(rank_)] : parts[0]);
    executor_.run();
  }

  void add_to(OracleResult& result) const {
    for (const std::string& output : program_.outputs())
      if (is_here(output)) add(output, result.outputs[output]);
    for (const Declaration& declaration : program_.declarations())
      if (program_.update_of(declaration.name) != nullptr && is_here(declaration.name))
        add(declaration.name, result.states[declaration.name]);
  }

 private:
  bool is_here(const std::string& value) const {
    const int group = program_.type(value).group;
    return group == group_ || group == TensorType::kEveryGroup;
  }

  // The elements that this rank owns, as ranges of the whole tensor.
  std::vector<Range> own_ranges(int64_t count) const {
    std::vector<Range> ranges = BlockOwners(options_.ranks).ranges(rank_, {offset_, offset_ + count});
    for (Range& range : ranges) range = {range.begin - offset_, range.end - offset_};
    return ranges;
  }

  void set(const std::string& tensor, const Numbers& numbers) {
    const at::Tensor whole = at::from_blob(const_cast<double*>(numbers.data()), {std::ssize(numbers)}, at::kDouble);
    at::Tensor memory = executor_.memory(tensor);
    int64_t done = 0;
    for (const Range& range : executor_.held(tensor)) {
      memory.narrow(0, done, range.size()).copy_(whole.narrow(0, range.begin, range.size()));
      done += range.size();
    }
  }

  bool is_number(const std::string& value) const {
    const TensorType& type = program_.type(value);
    return type.is_scalar() && type.distribution.is(Placement::replicated);
  }

  // Every element that this rank has of a value, at its place in the whole value.
  Numbers held(const std::string& value, int64_t count) const {
    if (is_number(value)) return {executor_.number(value)};
    const at::Tensor memory = executor_.memory(value).to(at::kDouble);
    const auto* data = memory.const_data_ptr<double>();
    Numbers numbers(static_cast<size_t>(count));
    for (const Range& range : executor_.held(value))
      for (int64_t i = range.begin; i < range.end; ++i) numbers[static_cast<size_t>(i)] = *data++;
    return numbers;
  }

  void add(const std::string& name, OracleValue& value) const {
    const TensorType& type = program_.type(name);
    value.distribution = type.distribution;
    value.extents = extents_of(type.shape, options_.sizes);
    const int64_t count = count_of(value.extents);
    const Numbers numbers = held(name, count);
    const auto ranks = static_cast<size_t>(options_.ranks);
    if (type.distribution.is(Placement::local)) {
      value.parts.resize(ranks);
      value.parts[static_cast<size_t>(rank_)] = numbers;
      return;
    }
    if (value.parts.empty()) {
      value.parts.push_back(numbers);
      value.givers.assign(numbers.size(), rank_);
    } else if (type.distribution.is(Placement::replicated)) {
      for (size_t i = 0; i < numbers.size(); ++i)
        if (!same_bits(numbers[i], value.parts[0][i]))
          value.fault = detail::concatenate(" element ", i, " is ", value.parts[0][i], " on rank ", value.givers[i],
                                            " and ", numbers[i], " on rank ", rank_);
    }
    const auto give = [&](Range range) {
      for (auto i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); ++i) {
        value.parts[0][i] = numbers[i];
        value.givers[i] = rank_;
      }
    };
    if (type.distribution.is(Placement::sliced)) std::ranges::for_each(own_ranges(count), give);
    if (type.distribution.is(Placement::rooted) && type.distribution.root == rank_) give({0, count});
  }

  PlanExecutor executor_;
  const Program& program_;
  const OracleOptions& options_;
  int rank_, group_;
  int64_t offset_;
};

}  // namespace

std::string refusal_of(const Program& program, const SizeValues& sizes) {
  int ranks = 1;  // as few as there can be
  const auto need = [&](const std::string& value) {
    const Distribution& lies = program.type(value).distribution;
    if (lies.is(Placement::rooted)) ranks = std::max(ranks, lies.root + 1);
  };
  for (const Declaration& declaration : program.declarations()) need(declaration.name);
  for (const Statement& statement : program.statements()) need(statement.name);
  std::string refusal;
  run_local(ranks * program.parts().groups, [&](Environment& environment) {
    try {
      PlanExecutor(SchedulePlan(program), environment, {.sizes = sizes});
    } catch (const UserError& error) {
      if (environment.rank() == 0) refusal = error.sentence();
    }
  });
  return refusal;
}

OracleResult run_on_ranks(const Program& program, const OracleInputs& inputs, const OracleOptions& options,
                          int64_t arena_offset, const RunSettings& run) {
  OracleResult result;
  std::mutex mutex;
  run_local(options.ranks * program.parts().groups, [&](Environment& environment) {
    RankRun one(program, environment, options, arena_offset, run);
    one.run(inputs);
    const std::lock_guard lock(mutex);
    one.add_to(result);
  });
  return result;
}

}  // namespace axonn::coconet
