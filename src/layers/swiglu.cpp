#include "axonn/layers/swiglu.hpp"

#include <memory>

#include <ATen/ops/silu.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/swiglu_chains.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

class Swiglu : public TensorOperation {
 public:
  std::string name() const override { return "swiglu"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    hidden_.keep(inputs[0]);
    return {swiglu_on_cpu(inputs[0])};
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    return {swiglu_gradient_on_cpu(gradients[0], hidden_.get())};
  }

  void release() override { hidden_.reset(); }

 private:
  Saved hidden_;
};

}  // namespace

Value swiglu(const Value& hidden) {
  const int64_t half = hidden.features / 2;
  AXONN_CHECK(hidden.features % 2 == 0 && hidden.layout.segments == std::vector<int64_t>({half, half}), "layers.swiglu",
              "needs features in two equal segments gate|value, got ", hidden.features, " '", hidden.layout.to_string(),
              "'; LinearOptions::segments of the layer before makes them");
  const auto activated = [&]() -> Tensor {
    if (hidden.tensor.is_cpu()) return record(std::make_unique<Swiglu>(), {hidden.tensor})[0];
    const auto halves = hidden.tensor.chunk(2, -1);
    return at::silu(halves[0]).mul(halves[1]);
  };
  return {activated(), half, {.axis = hidden.layout.axis, .rows = hidden.layout.rows}};
}

}  // namespace axonn
