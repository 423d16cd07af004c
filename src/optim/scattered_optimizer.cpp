#include "axonn/optim/scattered_optimizer.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/same_tensors.hpp"
#include "axonn/core/error.hpp"
#include "optim/program_optimizer.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "optim.scattered";

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& each : module.named_parameters()) {
    const bool known =
        std::ranges::any_of(parameters, [&](const NamedTensor& before) { return before.tensor.is_same(each.value()); });
    if (!known) parameters.push_back({each.key(), each.value()});
  }
  return parameters;
}

// Tensors without elements have nothing to update.
std::vector<NamedTensor> updated(std::vector<NamedTensor> tensors) {
  for (const auto& [name, tensor] : tensors)
    AXONN_CHECK(tensor.defined(), kWhere, "'", name, "' is an undefined tensor; give it memory first");
  std::erase_if(tensors,
                [](const NamedTensor& each) { return !each.tensor.requires_grad() || each.tensor.numel() == 0; });
  AXONN_CHECK(!tensors.empty(), kWhere, "no tensor requires a gradient; call requires_grad_() of those to be updated");
  for (const auto& [name, tensor] : tensors)
    AXONN_CHECK(tensor.is_leaf(), kWhere, "'", name,
                "' is computed from other tensors; give the tensors that it is made of");
  return tensors;
}

std::shared_ptr<Arena> make_arena(const std::vector<NamedTensor>& tensors, const Grid& grid, int rank) {
  std::vector<PlacedWeight> weights;
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.grad().defined()) tensor.mutable_grad() = at::zeros_like(tensor);
    weights.push_back({name, tensor.dim() >= 2, tensor.detach(), tensor.grad()});
    all.push_back({name, tensor});
    all.push_back({"gradient of " + name, tensor.grad()});
  }
  auto arena = std::make_shared<Arena>(weights, grid, rank);
  check_apart(all);
  return arena;
}

OptimizerSettings scheduled(OptimizerSettings settings) {
  check_optimizer(settings);
  settings.schedule = schedule_on(settings, {.data = 2}, {});
  AXONN_CHECK(divides(*settings.schedule), kWhere,
              "schedule ar-opt keeps the whole state on each rank; choose fuse or rs-opt-ag, or leave it out");
  return settings;
}

}  // namespace

// Counts the gradients that arrive.
struct ScatteredOptimizer::Watch {
  explicit Watch(const std::vector<NamedTensor>& watched) : tensors(watched) {
    arrived = std::make_shared<std::vector<int>>(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      hooks.push_back(tensors[i].tensor.register_hook([counts = arrived, i](const at::Tensor&) { ++(*counts)[i]; }));
  }
  ~Watch() {
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].tensor.remove_hook(hooks[i]);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  const std::vector<NamedTensor>& tensors;
  std::shared_ptr<std::vector<int>> arrived;  // per tensor, since the last step
  std::vector<unsigned> hooks;
};

ScatteredOptimizer::ScatteredOptimizer(Communicator& ranks, std::vector<NamedTensor> tensors,
                                       const OptimizerSettings& settings)
    : ranks_(ranks),
      grid_({.data = ranks.size()}),
      communicators_(ranks, grid_),
      scheduler_(communicators_, grid_, OverlapPolicy::none()) {
  const at::NoGradGuard no_grad;
  OptimizerSettings running;
  all_ranks_or_none(ranks, [&] {
    running = scheduled(settings);
    tensors_ = updated(std::move(tensors));
  });
  check_same_tensors(ranks, tensors_, kWhere);
  all_ranks_or_none(ranks, [&] { arena_ = make_arena(tensors_, grid_, ranks.rank()); });
  std::vector<Request> values;
  for (const NamedTensor& each : tensors_) values.push_back(ranks.broadcast(each.tensor.detach(), 0));
  for (const Request& request : values) request.wait();
  watch_ = std::make_unique<Watch>(tensors_);
  schedule_ = &scheduler_.add(arena_);
  optimizer_ = std::make_unique<ProgramOptimizer>(
      UpdatedNetwork{*arena_, *schedule_, communicators_, grid_, ranks.rank()}, running);
}

ScatteredOptimizer::ScatteredOptimizer(Communicator& ranks, const torch::nn::Module& module,
                                       const OptimizerSettings& settings)
    : ScatteredOptimizer(ranks, parameters_of(module), settings) {}

ScatteredOptimizer::~ScatteredOptimizer() = default;

void ScatteredOptimizer::check_step() const {
  for (const ArenaSlot& slot : arena_->slots()) {
    const auto& [name, tensor] = tensors_[static_cast<size_t>(slot.number)];
    AXONN_CHECK((*watch_->arrived)[static_cast<size_t>(slot.number)] > 0, kWhere, "'", name,
                "' got no gradient since the last step; use it in the loss, or make the optimizer without it "
                "(requires_grad_(false))");
    const auto lies_at = [&](const at::Tensor& now, const ScatteredTensors& table) {
      return now.defined() && now.numel() == slot.range.size() && now.data_ptr() == table.address(slot.offset);
    };
    AXONN_CHECK(lies_at(tensor, *arena_->scattered_weights()), kWhere, "'", name,
                "' lies in other memory than when the optimizer was made; copy_() new values into it");
    AXONN_CHECK(lies_at(tensor.grad(), *arena_->scattered_gradients()), kWhere, "the gradient of '", name,
                "' lies in other memory than when the optimizer was made; leave zero_grad() out, step() sets "
                "gradients to zero");
  }
}

UpdateReport ScatteredOptimizer::step(const UpdateOptions& options) {
  const at::NoGradGuard no_grad;
  check_step();
  optimizer_->prepare(options.learning_rate);
  scheduler_.begin_step();
  for (const ArenaSlot& slot : arena_->slots()) {
    schedule_->use(slot);
    schedule_->reduce(slot, [](const at::Tensor&, bool) {});  // it is in its place
  }
  scheduler_.finish();
  const UpdateReport report = optimizer_->step(options);
  for (const auto& [name, tensor] : tensors_) {
    tensor.mutable_grad().zero_();
    tensor.unsafeGetTensorImpl()->bump_version();  // it was written by its address
  }
  std::ranges::fill(*watch_->arrived, 0);
  return report;
}

}  // namespace axonn
