#include "axonn/train/verification.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "axonn/core/philox.hpp"
#include "axonn/train/passes.hpp"

namespace axonn {

using at::Tensor;

// Copies of the results of a series of steps. Tensors are this rank's ranges.
struct Verifier::Record {
  std::vector<double> losses;
  std::vector<double> norms;
  bool whole_gradients = true;  // after each step
  std::vector<std::map<std::string, Tensor>>
      gradients;                          // index: step; before clipping; none if the optimizer keeps none
  std::map<std::string, Tensor> weights;  // after the last step
  LinearCounts linear_products{};         // sums in the last step

  static Record of(Context& context, const VerificationOptions& options, const MakeNetwork& make);
};

namespace {

// Matrices that are initialized to zero would hide errors in the layers before them: those layers
// would have no gradient, so it would be equal on any grid.
void fill_zeros(Context& context, const Parameters& parameters, uint64_t seed) {
  for (const ArenaSlot& slot : parameters.arena().slots()) {
    const Tensor stored = parameters.arena().master().narrow(0, slot.offset, slot.range.size());
    if (slot.spec.dims.size() < 2 || stored.any().item<bool>()) continue;
    const auto shape = slot.spec.global_shape();
    const Tensor whole = at::empty({c10::multiply_integers(shape)}, at::kDouble);
    const uint32_t stream = philox_stream("verification", slot.name);
    for (int64_t i = 0; i < whole.numel(); ++i)
      whole.mutable_data_ptr<double>()[i] = 0.02 * to_normal(philox(seed, static_cast<uint64_t>(i), 0, stream));
    stored.copy_(stored_part(whole, slot, context.shape(), context.at()));
  }
  parameters.arena().round_master();
}

// The part of a parameter's gradient that is reduced on this rank.
std::vector<Range> reduced_ranges(const Arena& arena, const ArenaSlot& slot, bool whole_gradients) {
  const Range whole{slot.offset, slot.offset + slot.range.size()};
  if (whole_gradients || whole.size() == 0) return {{0, whole.size()}};
  const auto region =
      std::ranges::find_if(arena.regions(), [&](const OwnedRegion& one) { return slot.offset < one.range.end; });
  std::vector<Range> ranges = region->owners.ranges(region->member, whole);
  for (Range& range : ranges) range = {range.begin - slot.offset, range.end - slot.offset};
  return ranges;
}

}  // namespace

Verifier::Record Verifier::Record::of(Context& context, const VerificationOptions& options, const MakeNetwork& make) {
  const VerifiedNetwork network = make(context);
  const Parameters parameters = context.materialize(*network.model, options.seed);
  fill_zeros(context, parameters, options.seed);
  OptimizerSettings settings = options.optimizer;
  settings.clips = options.max_norm > 0;
  const auto optimizer = make_optimizer(context, parameters, settings);
  const BatchPlan plan = plan_micro_batches(options.batch, options.micro_batches, context.shape(), context.at(),
                                            context.options().forward.context);
  Record record;
  record.whole_gradients = parameters.schedule().whole_gradients();
  for (int step = 0; step < options.steps; ++step) {
    const double rate = options.learning_rate ? options.learning_rate->at(step) : -1;
    optimizer->prepare(rate);
    record.losses.push_back(run_passes(context, *network.task, plan, step, {.seed = options.seed}).loss());
    if (optimizer->keeps_gradients()) {
      auto& gradients = record.gradients.emplace_back();
      for (const ArenaSlot& slot : parameters.arena().slots())
        gradients[slot.name] = parameters.arena().gradient(slot).clone();
    }
    record.linear_products = context.scheduler().linear_counts();
    record.norms.push_back(optimizer->step({.max_norm = options.max_norm, .learning_rate = rate}).gradient_norm);
  }
  parameters.schedule().wait_for_weights();
  for (const auto& parameter : parameters.list()) record.weights[parameter.name()] = parameter.shard().detach().clone();
  return record;
}

Verifier::Verifier(Environment& environment, const VerificationOptions& options, MakeNetwork make)
    : environment_(environment), options_(options), make_(std::move(make)) {
  Context alone(environment, {},
                {.dtype = options.dtype,
                 .device = options.device,
                 .gpu_kernels = options.gpu_kernels,
                 .job_ranks = {environment.rank()}});
  expected_ = std::make_unique<Record>(Record::of(alone, options, make_));
}

Verifier::~Verifier() = default;

Verification Verifier::on(GridShape shape, const ForwardSchedule& forward) {
  Context grid(environment_, shape,
               {.dtype = options_.dtype,
                .device = options_.device,
                .gpu_kernels = options_.gpu_kernels,
                .kernels = options_.kernels,
                .order = options_.order,
                .overlap = options_.overlap,
                .forward = forward,
                .gradient_programs = options_.gradient_programs});
  const Record mine = Record::of(grid, options_, make_);

  // The layout of the parameters on the grid, for taking this rank's part of the whole tensors.
  Context plan = Context::plan(shape, {.dtype = options_.dtype, .order = options_.order}, environment_.rank());
  const VerifiedNetwork planned = make_(plan);
  const Parameters parameters = plan.materialize(*planned.model, options_.seed);
  const auto& slots = parameters.arena().slots();
  std::vector<Gap> gaps(mine.gradients.size() * slots.size() + slots.size());  // gradients by step, then weights
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto part = [&](const std::map<std::string, Tensor>& whole) {
      return stored_part(whole.at(slots[i].name), slots[i], plan.shape(), plan.at());
    };
    const std::vector<Range> reduced = reduced_ranges(parameters.arena(), slots[i], mine.whole_gradients);
    for (size_t step = 0; step < mine.gradients.size(); ++step)
      for (const Range& range : reduced)
        gaps[step * slots.size() + i].add(mine.gradients[step].at(slots[i].name).narrow(0, range.begin, range.size()),
                                          part(expected_->gradients[step]).narrow(0, range.begin, range.size()));
    gaps[mine.gradients.size() * slots.size() + i].add(mine.weights.at(slots[i].name), part(expected_->weights));
  }
  const std::vector<double> differences = relative(environment_.world(), gaps);

  const bool fp64 = options_.dtype == at::kDouble;
  const double any = std::numeric_limits<double>::infinity();
  const auto [loss, gradient] = tolerances(options_.dtype);
  const double weight = !fp64 ? any : optimizer_moments(options_.optimizer) < 2 ? 1e-12 : 1e-10;
  Verification result{.differences = {}, .linear_products = mine.linear_products};
  result.differences.push_back({"loss", relative(mine.losses, expected_->losses), loss});
  result.differences.push_back({"gradient norm", relative(mine.norms, expected_->norms), gradient});
  for (size_t i = 0; i < slots.size(); ++i) {
    double worst = 0;
    for (size_t step = 0; step < mine.gradients.size(); ++step)
      worst = std::max(worst, differences[step * slots.size() + i]);
    if (!mine.gradients.empty()) result.differences.push_back({"gradient " + slots[i].name, worst, gradient});
    result.differences.push_back(
        {"weight " + slots[i].name, differences[mine.gradients.size() * slots.size() + i], weight});
  }
  return result;
}

}  // namespace axonn
