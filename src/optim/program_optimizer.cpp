#include "optim/program_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "optim/optimizer_programs.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "optim.program";

coconet::ElementType element_type(at::ScalarType type) {
  using coconet::ElementType;
  switch (type) {
    case at::kDouble:
      return ElementType::fp64;
    case at::kBFloat16:
      return ElementType::bf16;
    case at::kHalf:
      return ElementType::fp16;
    default:
      return ElementType::fp32;
  }
}

}  // namespace

coconet::UpdateProgram running_program(const OptimizerSettings& settings, const ArenaTypes& types) {
  coconet::UpdateProgram program = optimizer_program(settings);
  if (settings.ema > 0) program = program.with_average();
  if (!settings.clips) program = program.without_factor();
  return program.with_types(element_type(types.weights), element_type(types.gradients), element_type(types.master));
}

ProgramOptimizer::ProgramOptimizer(const UpdatedNetwork& network, const OptimizerSettings& settings)
    : Optimizer(network, settings.learning_rate, settings.ema),
      settings_(settings),
      program_(optimizer_program(settings)) {
  if (keeps_average()) program_ = program_.with_average();
  const coconet::UpdateProgram running = running_program(settings, arena().types());
  executor_ = std::make_unique<UpdateExecutor>(running, running.scheduled(settings.schedule.value()).program(), network,
                                               settings.run);
  if (keeps_average()) executor_->copy_master_to(coconet::kAverage);
  for (const auto& [tensor, value] : program_.starts())
    value ? executor_->fill(tensor, *value) : executor_->copy_master_to(tensor);
  for (const auto& [name, value] : optimizer_scalars(settings))
    if (program_.has_number(name)) executor_->set(name, value);
  for (const auto& [name, value] : settings.set) {
    const std::vector<std::string> names = program_.settings();
    AXONN_CHECK(std::ranges::count(names, name) > 0, kWhere, "optimizer ", program_.name(), " has no setting '", name,
                "'; it has ", names.empty() ? "none" : join(names, ", "));
    executor_->set(name, value);
  }
  if (!program_.has_number(coconet::kDecay)) return;
  std::vector<double> decay;
  for (const ArenaSlot& slot : arena().slots()) decay.push_back(slot.decay ? settings.weight_decay : 0);
  executor_->set_rows(coconet::kDecay, decay);
}

void ProgramOptimizer::set(std::string_view number, double value) {
  if (program_.has_number(number)) executor_->set(number, value);
}

double ProgramOptimizer::gradient_norm(double learning_rate, const UpdateOptions& options) {
  const bool factor = options.max_norm > 0 || options.gradient_scale != 1;
  AXONN_CHECK(
      !factor || settings_.clips, kWhere,
      "this optimizer can neither clip gradients nor undo a factor of the loss: set clips = true when it is made");
  AXONN_CHECK(!factor || program_.clips(), kWhere, "optimizer ", program_.name(),
              " has no value 'scale', so it can neither clip gradients nor undo the factor of the loss; use --clip 0, "
              "or add: scale = unscale * min(1, max_norm / (gradient_norm + 0.000001))");
  set(coconet::kUnscale, 1 / options.gradient_scale);
  set(coconet::kMostNorm, options.max_norm > 0 ? options.max_norm : std::numeric_limits<double>::infinity());
  if (!executor_->updates_with_sums()) set_numbers(learning_rate);
  AXONN_CHECK(!executor_->updates_with_sums() || learning_rate == learning_rate_, kWhere,
              "step() has the learning rate ", learning_rate, ", and prepare() had ", learning_rate_,
              "; call both with the same rate");
  const double norm = executor_->gradient_norm(options.poisoned);
  AXONN_CHECK(std::isfinite(norm) || !executor_->updates_with_sums(), kWhere, "the gradient is not finite in update ",
              steps_taken() + 1, ", and schedule ", to_string(*settings_.schedule),
              " without clipping has changed the weights already; go on from a checkpoint, with --clip or another "
              "schedule");
  return norm;
}

void ProgramOptimizer::set_numbers(double learning_rate) {
  const int64_t update = steps_taken() + 1;
  learning_rate_ = learning_rate;
  set(coconet::kLearningRate, learning_rate);
  set(coconet::kUpdateNumber, static_cast<double>(update));
  set(coconet::kAverageRate, average_rate(update));
}

void ProgramOptimizer::prepare_update(double learning_rate) {
  if (!executor_->updates_with_sums()) return;
  set_numbers(learning_rate);
  executor_->prepare();
}

void ProgramOptimizer::update(double, const UpdateOptions&, double) { executor_->update(); }

std::vector<OptimizerState> ProgramOptimizer::tensors() const {
  std::vector<OptimizerState> all;
  for (const UpdateExecutor::State& state : executor_->state()) {
    const std::string name = all.empty()                       ? "weights"
                             : state.name == coconet::kAverage ? state.name
                                                               : program_.name() + "." + state.name;
    all.push_back({name, state.tensor, state.own});
  }
  return all;
}

void ProgramOptimizer::state_changed() { executor_->master_changed(); }

void ProgramOptimizer::exchange_average() { executor_->exchange_master(coconet::kAverage); }

}  // namespace axonn
