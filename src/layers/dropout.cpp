#include "axonn/layers/dropout.hpp"

#include <cmath>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// Uniform numbers of consecutive elements: element e takes word e % 4 of block e / 4.
class ElementStream {
 public:
  ElementStream(uint64_t seed, uint32_t stream) : seed_(seed), stream_(stream) {}
  double operator()(uint64_t element) {
    if (element / 4 != block_) {
      block_ = element / 4;
      words_ = philox(seed_, block_, 0, stream_);
    }
    return to_uniform(words_[element % 4]);
  }

 private:
  uint64_t seed_;
  uint32_t stream_;
  uint64_t block_ = ~uint64_t{0};
  std::array<uint32_t, 4> words_{};
};

// 0 where dropped, 1 / (1 - p) where kept. `runs` lists the global elements of one row of the mask, given the row's first element.
struct MaskRow {
  int64_t local = 0;   // first element in the row of the mask
  int64_t global = 0;  // its place in the row of the whole tensor
  int64_t size = 0;
};

Tensor make_mask(const Context& context, const Tensor& like, int64_t rows, int64_t local_width, const std::vector<MaskRow>& pieces,
                 const std::function<int64_t(int64_t row)>& first_element, double probability, const std::string& name) {
  Tensor mask = at::empty({rows, local_width}, at::TensorOptions().dtype(at::kFloat));
  float* out = mask.mutable_data_ptr<float>();
  const auto kept = static_cast<float>(1 / (1 - probability));
  ElementStream uniform(context.samples().seed, philox_stream("dropout", name));
  for (int64_t row = 0; row < rows; ++row)
    for (const MaskRow& piece : pieces) {
      const int64_t first = first_element(row) + piece.global;
      float* to = out + row * local_width + piece.local;
      for (int64_t i = 0; i < piece.size; ++i) to[i] = uniform(static_cast<uint64_t>(first + i)) < probability ? 0 : kept;
    }
  return mask.to(like.options()).view(like.sizes());
}

class DropoutOperation : public Operation {
 public:
  explicit DropoutOperation(Tensor mask) : mask_(std::move(mask)) {}
  const char* name() const override { return "dropout"; }
  Tensor forward(const Tensor& input) override { return input * mask_; }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output * mask_; }
  void release() override { mask_.reset(); }

 private:
  Tensor mask_;
};

void check_probability(double probability) {
  AXONN_CHECK(probability >= 0 && probability < 1, "layers.dropout", "probability must be in [0, 1), got ", probability);
}

}  // namespace

Value dropout(Context& context, const Value& value, double probability, const std::string& name) {
  check_probability(probability);
  if (probability == 0) return value;
  const Tensor& tensor = value.tensor;
  const int64_t width = tensor.size(-1), rows = tensor.numel() / width, rows_a_sample = rows / tensor.size(0);
  std::vector<MaskRow> pieces;
  for (const auto& piece : value.layout.dim(value.features).pieces(context.shape(), context.at()))
    pieces.push_back({piece.local_begin, piece.global.begin, piece.global.size()});
  const int64_t first_row = context.samples().first * rows_a_sample;
  const auto first_element = [&](int64_t row) { return (first_row + row) * value.features; };
  auto operation = std::make_unique<DropoutOperation>(make_mask(context, tensor, rows, width, pieces, first_element, probability, name));
  return {record(std::move(operation), tensor), value.features, value.layout};
}

Tensor dropout_attention(Context& context, const Tensor& probabilities, double probability, const std::string& name, int64_t first_head, int64_t heads) {
  check_probability(probability);
  if (probability == 0) return probabilities;
  const int64_t local_heads = probabilities.size(1), queries = probabilities.size(2), keys = probabilities.size(3);
  const auto first_element = [&](int64_t row) {
    const int64_t sample = context.samples().first + row / (local_heads * queries), head = first_head + row / queries % local_heads;
    return ((sample * heads + head) * queries + row % queries) * keys;
  };
  const int64_t rows = probabilities.size(0) * local_heads * queries;
  return record(std::make_unique<DropoutOperation>(make_mask(context, probabilities, rows, keys, {{0, 0, keys}}, first_element, probability, name)), probabilities);
}

}  // namespace axonn
