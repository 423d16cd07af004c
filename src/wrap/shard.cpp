#include "axonn/wrap/shard.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/same_tensors.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/overlap/step/sum_of_squares.hpp"
#include "wrap/find_parameters.hpp"
#include "wrap/layer_child.hpp"
#include "wrap/stand_in.hpp"
#include "wrap/wrap_module.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.shard";
constexpr AxisSet kEveryone = {Axis::x, Axis::y, Axis::z, Axis::data};

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(std::weak_ptr<WrappedNetwork> network, int parameter)
      : network_(std::move(network)), parameter_(parameter) {}
  void operator()(const at::Tensor&) override {
    const auto network = network_.lock();
    AXONN_CHECK(network != nullptr, kWhere,
                "a wrapped module is trained after the result of shard() has gone; keep it as long as the module");
    network->arrived(parameter_);
  }

 private:
  std::weak_ptr<WrappedNetwork> network_;
  int parameter_;
};

std::vector<NamedTensor> all_tensors(const FoundModule& found) {
  std::vector<NamedTensor> all;
  for (const auto* list : {&found.trained, &found.frozen, &found.empty, &found.buffers})
    for (const FoundTensor& each : *list) all.push_back({each.names.front(), each.tensor});
  return all;
}

// Parameters get the memory of their ranges in WrappedNetwork.
void settle_deferred(const FoundModule& found, const Context& context) {
  for (const auto* list : {&found.trained, &found.frozen, &found.empty, &found.buffers})
    for (const FoundTensor& each : *list)
      if (each.deferred)
        settle_on(each.tensor, context.options().device,
                  /*with_memory=*/list == &found.empty || list == &found.buffers);
}

torch::nn::AnyModule& child_of(torch::nn::SequentialImpl& parent, size_t index) {
  return *(parent.begin() + static_cast<ptrdiff_t>(index));
}

void insert_layers(const ParallelPlan& plan, const std::shared_ptr<WrappedNetwork>& network) {
  for (const auto& [parent, index, key, place] : plan.children) {
    torch::nn::AnyModule& child = child_of(*parent, index);
    if (place.layer) {
      const auto layer = std::make_shared<LayerChild>(*child.ptr(), place, network);
      parent->replace_module(key, layer);
      child = torch::nn::AnyModule(layer);
    } else {
      child =
          torch::nn::AnyModule(std::shared_ptr<StandIn>(std::make_shared<Converted>(child, network->context(), place)));
    }
  }
  for (const auto& [member, place] : plan.members) member->join(network, std::make_shared<const ModulePlace>(place));
}

void insert_units(const FoundUnits& found, const std::shared_ptr<WrappedNetwork>& network) {
  for (const auto& [typed, unit] : found.typed) typed->join(network, unit);
  for (const FoundUnits::Child& each : found.children) {
    torch::nn::AnyModule& child = child_of(*each.parent, each.index);
    const auto unit = std::make_shared<SequentialUnit>(child);
    unit->join(network, each.unit);
    child = torch::nn::AnyModule(std::shared_ptr<StandIn>(unit));
  }
}

}  // namespace

WrappedModule shard(Context& context, torch::nn::Module& module, const ShardOptions& options) {
  AXONN_CHECK(options.plan.empty(), kWhere,
              ".plan splits members over X and Y; call axonn::parallelize() for that, or leave it out");
  const GridShape& shape = context.shape();
  if (shape.x * shape.y > 1 && context.rank() == 0)
    log::warn("grid ", shape.to_string(),
              ": ranks along X and Y do the same work on a wrapped module; Z and data divide it, and "
              "axonn::parallelize() divides Sequentials and members of axonn::nn over X and Y");
  return wrap_module(context, module, options, [&] { return plan_batch_norms(module); });
}

WrappedModule wrap_module(Context& context, torch::nn::Module& module, const ShardOptions& options,
                          const std::function<ParallelPlan()>& plan_for) {
  AXONN_CHECK(!context.planned(), kWhere, "Context::plan() has no ranks to shard a module over; construct a Context");
  AXONN_CHECK(context.options().forward.context == 1, kWhere,
              "context divides sequences of axonn's decoders, and a wrapped module has whole ones; choose 1, got ",
              context.options().forward.context);
  Communicator& everyone = context.communicators().on_cpu(kEveryone);
  ParallelPlan plan;
  FoundUnits found;
  all_ranks_or_none(everyone, [&] {
    plan = plan_for();
    found = find_parameters(module, options.units, context, plan.layers);
  });
  const std::vector<NamedTensor> all = all_tensors(found.module);
  check_same_tensors(everyone, all, kWhere);
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& each : all)
    if (!each.tensor.is_meta()) tensors.push_back(each.tensor);
  share(context, tensors);
  settle_deferred(found.module, context);
  const auto network = std::make_shared<WrappedNetwork>(context, found.module, options);
  network->parameters().schedule().listen(network);
  for (size_t i = 0; i < found.module.trained.size() && !found.module.trained[i].layer; ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(found.module.trained[i].tensor,
                                                   std::make_unique<GradientHook>(network, static_cast<int>(i)));
  insert_layers(plan, network);
  insert_units(found, network);
  network->draw_values();
  network->know(module);
  return WrappedModule(network);
}

const std::vector<at::Tensor>& WrappedModule::local() const { return network_->local(); }
const std::vector<std::string>& WrappedModule::names() const { return network_->names(); }
const Parameters& WrappedModule::parameters() const { return network_->parameters(); }

WrappedModule::Gathered::Gathered(std::shared_ptr<WrappedNetwork> network, const GatheredOptions& options)
    : network_(std::move(network)), exceptions_(std::uncaught_exceptions()) {
  network_->begin_gathered(options.write_back);
}
WrappedModule::Gathered::~Gathered() {
  try {
    network_->end_gathered(/*takes_over=*/std::uncaught_exceptions() == exceptions_);
  } catch (const BackendError&) {
    // A collective has failed: every later one fails too, so nobody goes on with these weights.
  }
}

double clip_grad_norm_(const WrappedModule& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& local = parameters.local();
  const auto& slots = parameters.parameters().arena().slots();
  for (size_t i = 0; i < local.size(); ++i)
    AXONN_CHECK(local[i].grad().defined(), "wrap.clip", "'", slots[i].name,
                "' has no gradient to clip; call it after step.finish() and before zero_grad()");
  at::Tensor total = at::zeros({1}, local.front().options().dtype(at::kDouble).requires_grad(false));
  for (size_t i = 0; i < local.size(); ++i)
    if (slots[i].counts_in_norm) total += sum_of_squares(local[i].grad());
  total = parameters.parameters()
              .schedule()
              .scheduler()
              .all_reduce(std::move(total), {Axis::x, Axis::y, Axis::z}, "gradient norm")
              .wait();
  const double norm = std::sqrt(total.item<double>());
  const double scale = std::isnan(norm) ? norm : std::min(1.0, max_norm / (norm + 1e-6));
  if (scale == 1) return norm;
  for (const at::Tensor& each : local) each.grad().mul_(scale);
  return norm;
}

}  // namespace axonn
