#include "wrap/layer_child.hpp"

#include <sstream>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {

LayerChild::LayerChild(const torch::nn::Module& replaced, ModulePlace place, std::shared_ptr<WrappedNetwork> network)
    : Module(replaced.name()), place_(std::move(place)), network_(std::move(network)) {
  std::ostringstream text;
  replaced.pretty_print(text);
  text_ = text.str();
  train(replaced.is_training());
}

at::Tensor LayerChild::forward(at::Tensor x) {
  network_->check_usable(place_.name);
  return place_.compute(network_->context(), x, is_training(), {});
}

void LayerChild::save(torch::serialize::OutputArchive&) const {
  throw UserError("wrap.parallelize",
                  "'" + place_.name + "' is divided by axonn::parallelize(); save with axonn::save_state_dict()");
}

void LayerChild::pretty_print(std::ostream& stream) const {
  stream << text_ << " (" << place_.input.layout.to_string() << " -> " << place_.output.layout.to_string() << ")";
}

}  // namespace axonn
