#include "axonn/layers/dropout.hpp"

#include <cmath>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "layers/operation.hpp"
#include "layers/ops/dropout_mask.hpp"

namespace axonn {
namespace {

// Laid out like `like` and drawn on its device.
Tensor make_mask(const Tensor& like, const DropoutMask& what, const std::vector<MaskColumns>& held) {
  Tensor mask = at::empty({what.rows, what.width}, at::TensorOptions().dtype(at::kFloat).device(like.device()));
  float* out = mask.mutable_data_ptr<float>();
  for (const MaskColumns& columns : held) {
    if (mask.is_cuda())
      fill_cuda_mask(out, what, columns, mask.device().index());
    else
      fill_mask(out, what, columns);
  }
  return mask.to(like.options()).view(like.sizes());
}

class DropoutOperation : public Operation {
 public:
  explicit DropoutOperation(Tensor mask) : mask_(std::move(mask)) {}
  std::string name() const override { return "dropout"; }
  Tensor forward(const Tensor& input) override { return input * mask_; }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output * mask_; }
  void release() override { mask_.reset(); }

 private:
  Tensor mask_;
};

void check_probability(double probability) {
  AXONN_CHECK(probability >= 0 && probability < 1, "layers.dropout", "probability must be in [0, 1), got ",
              probability);
}

Context::Samples samples_of(const Context& context) {
  AXONN_CHECK(context.samples(), "layers.dropout",
              "dropout follows the numbers of the samples, and nobody said which they are: call "
              "context.set_samples({.seed = ..., .first = "
              "...}) before the forward of every step");
  return *context.samples();
}

}  // namespace

Value dropout(Context& context, const Value& value, double probability, const std::string& name) {
  check_probability(probability);
  if (probability == 0) return value;
  const Context::Samples samples = samples_of(context);
  const Tensor& tensor = value.tensor;
  const int64_t width = tensor.size(-1), rows = tensor.numel() / width, rows_a_sample = rows / tensor.size(0);
  std::vector<MaskColumns> held;
  for (const auto& each : value.layout.dim(value.features).local_ranges(context.shape(), context.at()))
    held.push_back({each.local_begin, each.global.begin, each.global.size()});
  const Tensor mask = make_mask(tensor,
                                {.seed = samples.seed,
                                 .stream = philox_stream("dropout", name),
                                 .probability = probability,
                                 .rows = rows,
                                 .width = width,
                                 .first = samples.first * rows_a_sample * value.features,
                                 .inner = rows,
                                 .inner_stride = value.features},
                                held);
  return {record(std::make_unique<DropoutOperation>(mask), tensor), value.features, value.layout};
}

Tensor dropout_attention(Context& context, const Tensor& probabilities, double probability, const std::string& name,
                         int64_t first_head, int64_t heads) {
  check_probability(probability);
  if (probability == 0) return probabilities;
  const Context::Samples samples = samples_of(context);
  const int64_t local_heads = probabilities.size(1), queries = probabilities.size(2), keys = probabilities.size(3);
  const Tensor mask = make_mask(probabilities,
                                {.seed = samples.seed,
                                 .stream = philox_stream("dropout", name),
                                 .probability = probability,
                                 .rows = probabilities.size(0) * local_heads * queries,
                                 .width = keys,
                                 .first = (samples.first * heads + first_head) * queries * keys,
                                 .middle = local_heads,
                                 .inner = queries,
                                 .outer_stride = heads * queries * keys,
                                 .middle_stride = queries * keys,
                                 .inner_stride = keys},
                                {{0, 0, keys}});
  return record(std::make_unique<DropoutOperation>(mask), probabilities);
}

}  // namespace axonn
