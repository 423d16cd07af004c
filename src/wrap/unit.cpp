#include "axonn/wrap/unit.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "axonn/core/error.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

// Stands behind a unit's outputs: backward passes it before it enters the unit.
class UnitNode : public torch::autograd::Node {
 public:
  UnitNode(std::shared_ptr<WrappedNetwork> network, int unit, std::shared_ptr<WrappedNetwork::Inputs> inputs)
      : network_(std::move(network)), unit_(unit), inputs_(std::move(inputs)), step_(network_->step()) {}

  std::string name() const override { return "axonn::unit"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    AXONN_CHECK(step_ == network_->step(), "wrap.unit",
                "backward reaches a unit with the forward of an earlier step, whose weights have changed; run "
                "backward inside the step of its forward");
    network_->begin_backward(unit_, *inputs_);
    return std::move(gradients);
  }

 private:
  std::shared_ptr<WrappedNetwork> network_;
  int unit_;
  std::shared_ptr<WrappedNetwork::Inputs> inputs_;
  int64_t step_;
};

}  // namespace

UnitBase::Run::Run(const UnitBase& unit, const std::vector<const at::Tensor*>& inputs)
    : network_(unit.network_), unit_(unit.unit_) {
  if (network_ == nullptr) return;
  network_->begin_forward(unit_);
  inputs_ = network_->watch(unit_, inputs);
}

UnitBase::Run::~Run() {
  if (network_ != nullptr) network_->leave(unit_);
}

void UnitBase::Run::record(const std::vector<at::Tensor*>& outputs) const {
  if (network_ == nullptr) return;
  for (const at::Tensor* output : outputs) network_->check_own_memory(unit_, *output);
  if (!at::GradMode::is_enabled()) return;
  std::shared_ptr<UnitNode> node;
  for (at::Tensor* output : outputs) {
    if (!output->requires_grad()) continue;
    if (node == nullptr)
      node = std::make_shared<UnitNode>(network_, unit_, std::static_pointer_cast<WrappedNetwork::Inputs>(inputs_));
    node->add_next_edge(torch::autograd::impl::gradient_edge(*output));
    at::Tensor passed = output->detach();
    torch::autograd::set_history(passed, node);
    *output = std::move(passed);
  }
}

}  // namespace axonn
