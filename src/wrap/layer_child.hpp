#pragma once

#include <memory>
#include <ostream>
#include <string>

#include <torch/nn/module.h>

#include "wrap/module_place.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {

// A layer of axonn in the place of a child of a Sequential. It has no tensors of LibTorch.
class LayerChild final : public torch::nn::Module {
 public:
  LayerChild(const torch::nn::Module& replaced, ModulePlace place, std::shared_ptr<WrappedNetwork> network);

  at::Tensor forward(at::Tensor x);
  void save(torch::serialize::OutputArchive& archive) const override;
  void pretty_print(std::ostream& stream) const override;

 private:
  std::string text_;
  ModulePlace place_;
  std::shared_ptr<WrappedNetwork> network_;
};

}  // namespace axonn
