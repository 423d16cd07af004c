#include "wrap/layer_child.hpp"

#include <sstream>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {

LayerChild::LayerChild(const torch::nn::Module& replaced, const ParallelPlan::Child& plan,
                       std::shared_ptr<WrappedNetwork> network)
    : Module(replaced.name()),
      name_(plan.name),
      layer_(*plan.layer),
      before_(plan.before),
      after_(plan.after),
      network_(std::move(network)) {
  std::ostringstream text;
  replaced.pretty_print(text);
  text_ = text.str();
  train(replaced.is_training());
}

at::Tensor LayerChild::forward(at::Tensor x) {
  network_->check_usable(name_);
  Context& context = network_->context();
  const bool computes = layer_.module != nullptr || is_training();  // Dropout that does not train leaves x as it is
  at::Tensor result = computes ? layer_.run(converted(context, x, before_, layer_.input, name_)) : std::move(x);
  return converted(context, result, layer_.output, after_, name_);
}

void LayerChild::save(torch::serialize::OutputArchive&) const {
  throw UserError("wrap.parallelize",
                  "'" + name_ + "' is divided by axonn::parallelize(); save with axonn::save_state_dict()");
}

void LayerChild::pretty_print(std::ostream& stream) const {
  stream << text_ << " (" << layer_.input.layout.to_string() << " -> " << layer_.output.layout.to_string() << ")";
}

}  // namespace axonn
