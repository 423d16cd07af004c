#include "axonn/layers/blocks/key_value_cache.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/cached_attention.hpp"

namespace axonn {
namespace {

using at::Tensor;

// queries (heads, tokens, f) at positions begin, begin + 1, ...; keys and values (key heads, n, f)
// of positions first, first + 1, ...; -> (tokens, heads, f)
Tensor attended(const Tensor& queries, const Tensor& keys, const Tensor& values, int64_t begin, int64_t first,
                int64_t window) {
  const int64_t heads = queries.size(0), tokens = queries.size(1), features = queries.size(2), groups = keys.size(0);
  // The queries that share a head of keys are rows of one product.
  const Tensor grouped = queries.reshape({groups, heads / groups * tokens, features});
  Tensor scores = at::bmm(grouped, keys.transpose(1, 2)).mul_(1 / std::sqrt(static_cast<double>(features)));
  if (tokens > 1) {
    const Tensor position = at::arange(begin, begin + tokens, at::TensorOptions(at::kLong).device(queries.device())),
                 key = at::arange(first, first + keys.size(1), at::TensorOptions(at::kLong).device(queries.device()));
    Tensor hidden = key.unsqueeze(0) > position.unsqueeze(1);
    if (window > 0) hidden = hidden.logical_or(key.unsqueeze(0) <= position.unsqueeze(1) - window);
    scores = scores.view({heads, tokens, keys.size(1)})
                 .masked_fill_(hidden, -std::numeric_limits<double>::infinity())
                 .view({groups, heads / groups * tokens, keys.size(1)});
  }
  return at::bmm(at::softmax(scores, -1), values).view({heads, tokens, features}).transpose(0, 1);
}

// Copies the keys or values of some texts' new tokens, (texts, tokens, heads, f), to the cache,
// (texts, heads, length, f). On a CPU, a view takes LibTorch longer than a token's head is copied.
void copy_heads(const Tensor& some, const Tensor& cache, const std::vector<int64_t>& begins) {
  const int64_t texts = some.size(0), tokens = some.size(1), heads = some.size(2), features = some.size(3);
  AXONN_ASSERT(some.scalar_type() == cache.scalar_type() && some.stride(3) == 1, "keys as they lie in the cache");
  if (!some.is_cpu()) {
    for (int64_t text = 0; text < texts; ++text)
      cache[text].narrow(1, begins[static_cast<size_t>(text)], tokens).copy_(some[text].transpose(0, 1));
    return;
  }
  const auto width = static_cast<int64_t>(some.element_size());
  const auto* const from = static_cast<const std::byte*>(some.const_data_ptr());
  auto* const to = static_cast<std::byte*>(cache.mutable_data_ptr());
  for (int64_t text = 0; text < texts; ++text)
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t place = (text * heads + head) * cache.size(2) + begins[static_cast<size_t>(text)] + token;
        std::memcpy(to + place * features * width,
                    from + (text * some.stride(0) + token * some.stride(1) + head * some.stride(2)) * width,
                    static_cast<size_t>(features * width));
      }
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t texts, int64_t length, int64_t heads, int64_t features,
                             const at::TensorOptions& like)
    : keys_(at::empty({texts, heads, length, features}, like)), values_(at::empty_like(keys_)) {}

void KeyValueCache::put(const AttentionHeads& heads, const std::vector<int64_t>& begins) {
  const at::NoGradGuard no_grad;
  const int64_t texts = heads.keys.size(0), tokens = heads.keys.size(1);
  AXONN_CHECK(static_cast<int64_t>(begins.size()) == texts && texts == keys_.size(0), "layers.key_value_cache",
              "the cache holds ", keys_.size(0), " texts, got ", texts, " of ", begins.size(),
              " positions; give one for each text");
  for (int64_t text = 0; text < texts; ++text) {
    const int64_t begin = begins[static_cast<size_t>(text)], end = begin + tokens;
    AXONN_CHECK(begin >= 0 && end <= length(), "layers.key_value_cache", "the cache has room for ", length(),
                " tokens, got positions ", begin, " .. ", end, "; make it longer");
  }
  copy_heads(heads.keys, keys_, begins);
  copy_heads(heads.values, values_, begins);
}

Tensor KeyValueCache::attend(const AttentionHeads& heads, const std::vector<int64_t>& begins, int64_t window) {
  const at::NoGradGuard no_grad;
  put(heads, begins);
  const Tensor& queries = heads.queries;
  const int64_t texts = queries.size(0), tokens = queries.size(1);
  std::vector<SeenKeys> seen;
  for (const int64_t begin : begins) {
    const int64_t first = window > 0 ? std::max<int64_t>(0, begin - window + 1) : 0;
    seen.push_back({first, begin + tokens - first});
  }
  if (tokens == 1 && has_cached_attention(queries, keys_))
    return cached_attention(queries.squeeze(1), keys_, values_, seen).view({texts, 1, -1});
  std::vector<Tensor> outputs;
  for (int64_t text = 0; text < texts; ++text) {
    const int64_t begin = begins[static_cast<size_t>(text)];
    const auto [first, count] = seen[static_cast<size_t>(text)];
    outputs.push_back(attended(queries[text].transpose(0, 1), keys_[text].narrow(1, first, count),
                               values_[text].narrow(1, first, count), begin, first, window));
  }
  return at::stack(outputs).reshape({texts, tokens, queries.size(2) * queries.size(3)});
}

}  // namespace axonn
