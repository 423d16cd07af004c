#include "axonn/layers/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/attention_products.hpp"
#include "axonn/layers/dropout.hpp"
#include "layers/medians_in_turn.hpp"
#include "layers/ops/causal_attention.hpp"

namespace axonn {
namespace {

using at::Tensor;

// LibTorch's fused attention cannot drop by global position, so dropout takes this path.
Tensor attention_with_dropout(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionOptions& options) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (options.causal) {
    const Tensor later = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  const int64_t first_head = q.size(1) * context.at()[options.axis];
  const Tensor kept = dropout_attention(context, at::softmax(scores, -1), options.dropout, options.dropout_name,
                                        first_head, options.heads);
  return at::matmul(kept, v);
}

}  // namespace

int64_t attention_block(int64_t sequence, c10::Device device) {
  constexpr int64_t kShort = 256, kLongest = 1024;
  if (!device.is_cpu() || sequence > kLongest) return 0;
  return std::min<int64_t>(sequence, sequence <= kShort ? 64 : 128);
}

AttentionProducts choose_attention_products(Communicator& everyone, at::ScalarType dtype, c10::Device device) {
  if (!device.is_cpu() || (dtype != at::kBFloat16 && dtype != at::kHalf)) return AttentionProducts::own;
  const at::NoGradGuard no_grad;
  constexpr double kWorthIt = 0.97;  // the own type is kept when both are about equal
  constexpr int64_t kBatch = 2, kSequence = 256, kHeads = 4, kFeatures = 64, kBlock = 64;
  const Tensor qkv = at::ones({kBatch, kSequence, 3, kHeads, kFeatures}, dtype),
               grad = at::ones({kBatch, kSequence, kHeads * kFeatures}, dtype);
  const auto work = [&](at::ScalarType products) {
    return [&, products] {
      const auto operation = causal_attention(kBlock, products);
      operation->forward(qkv);
      operation->backward(grad, /*input_needed=*/true);
    };
  };
  const std::vector<double> seconds = medians_in_turn({work(dtype), work(at::kFloat)});
  const Tensor chosen = at::scalar_tensor(seconds[1] < kWorthIt * seconds[0] ? 1 : 0, at::kLong);
  everyone.broadcast(chosen, 0).wait();
  return chosen.item<int64_t>() == 1 ? AttentionProducts::fp32 : AttentionProducts::own;
}

Value attention(Context& context, const Value& qkv, const AttentionOptions& options) {
  const int64_t features = qkv.features / 3;
  check_layout(qkv, 3 * features, Layout::over(options.axis, {features, features, features}), "layers.attention");
  const int size = context.shape()[options.axis];
  AXONN_CHECK(options.heads > 0 && options.heads % size == 0, "layers.attention", "heads must divide by axis ",
              to_string(options.axis), ", got ", options.heads, " heads and ", to_string(options.axis), " = ", size);
  AXONN_CHECK(features % options.heads == 0, "layers.attention", "features must divide by heads, got ", features,
              " features and ", options.heads, " heads");
  const Tensor& tensor = qkv.tensor;
  AXONN_CHECK(tensor.dim() == 3, "layers.attention", "needs (batch, sequence, features), got sizes ", tensor.sizes());
  const int64_t batch = tensor.size(0), sequence = tensor.size(1), heads = options.heads / size;
  const Tensor by_head = tensor.view({batch, sequence, 3, heads, features / options.heads});
  const Layout over_axis = Layout::over(options.axis);
  const int64_t block = attention_block(sequence, tensor.device());
  if (options.causal && options.dropout == 0 && block > 0 && by_head.numel() > 0) {
    const bool wide = tensor.element_size() == 2 && context.options().attention == AttentionProducts::fp32;
    const at::ScalarType products = wide ? at::kFloat : tensor.scalar_type();
    return {record(causal_attention(block, products), by_head), features, over_axis};
  }
  const auto parts = by_head.unbind(2);
  // (batch, heads, sequence, features of a head)
  const Tensor q = parts[0].transpose(1, 2), k = parts[1].transpose(1, 2), v = parts[2].transpose(1, 2);
  const Tensor mixed = options.dropout > 0 ? attention_with_dropout(context, q, k, v, options)
                                           : at::scaled_dot_product_attention(q, k, v, {}, 0.0, options.causal);
  return {mixed.transpose(1, 2).reshape({batch, sequence, features / size}), features, over_axis};
}

}  // namespace axonn
