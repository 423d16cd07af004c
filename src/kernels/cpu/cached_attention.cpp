#include "kernels/cpu/cached_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <c10/util/BFloat16.h>

#include "kernels/cpu/dot_lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr int64_t kGrain = 1 << 15;  // least elements of the keys for a thread
// Rows of scores have multiples of this length: LibTorch sums less than a vector in another order,
// and a short text beside a long one would have other bits than by itself.
constexpr int64_t kWhole = 64;

// The rows of one text's head of keys, or of values.
template <typename Element>
const Element* rows_of(const Tensor& cache, int64_t text, int64_t head, int64_t first) {
  return cache.const_data_ptr<Element>() + text * cache.stride(0) + head * cache.stride(1) + first * cache.size(3);
}

// Calls part(text, head of keys, its first head of queries) for all, among threads.
template <typename Part>
void for_groups(const Tensor& keys, int64_t longest, const Part& part) {
  const int64_t groups = keys.size(1);
  parallel_for(0, keys.size(0) * groups, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, longest * keys.size(3))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) part(i / groups, i % groups);
               });
}

template <int64_t kRows, typename Element>
AXONN_INLINE void score(const float* queries, const Element* keys, int64_t count, int64_t features, float* scores,
                        int64_t longest) {
  float sums[kRows];
  for (int64_t key = 0; key < count; ++key) {
    dots<kRows>(queries, keys + key * features, features, sums);
    for (int64_t r = 0; r < kRows; ++r) scores[r * longest + key] = sums[r];
  }
}

template <typename Element>
AXONN_INLINE void mix(const float* weights, const Element* values, int64_t count, int64_t features, float* sums,
                      Element* output) {
  std::fill_n(sums, features, 0.0F);
  for (int64_t key = 0; key < count; ++key) {
    const Element* const row = values + key * features;
    AXONN_INDEPENDENT for (int64_t j = 0; j < features; ++j) sums[j] += weights[key] * number(row[j]);
  }
  for (int64_t j = 0; j < features; ++j) output[j] = static_cast<Element>(sums[j]);
}

template <typename Element>
Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values, const std::vector<SeenKeys>& seen) {
  const int64_t heads = queries.size(1), features = queries.size(2), shared = heads / keys.size(1);
  const int64_t most = std::ranges::max(seen, {}, &SeenKeys::count).count;
  const int64_t longest = (most + kWhole - 1) / kWhole * kWhole;
  const Tensor wide = queries.to(at::kFloat).contiguous().mul(1 / std::sqrt(static_cast<double>(features)));
  const Tensor scores =
      at::full({queries.size(0), heads, longest}, -std::numeric_limits<float>::infinity(), wide.options());
  const auto* const from = wide.const_data_ptr<float>();
  auto* const to = scores.mutable_data_ptr<float>();
  for_groups(keys, longest, [&](int64_t text, int64_t group) {
    const auto [first, count] = seen[static_cast<size_t>(text)];
    const auto* const some_keys = rows_of<Element>(keys, text, group, first);
    with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
      int64_t head = text * heads + group * shared;
      const int64_t end = head + shared;
      for (; head + 4 <= end; head += 4)
        score<4>(from + head * features, some_keys, count, features, to + head * longest, longest);
      for (; head < end; ++head)
        score<1>(from + head * features, some_keys, count, features, to + head * longest, longest);
    });
  });
  const Tensor weights = at::softmax(scores, -1), output = at::empty(queries.sizes(), queries.options());
  const auto* const weight = weights.const_data_ptr<float>();
  auto* const out = output.mutable_data_ptr<Element>();
  for_groups(values, longest, [&](int64_t text, int64_t group) {
    const auto [first, count] = seen[static_cast<size_t>(text)];
    const auto* const some_values = rows_of<Element>(values, text, group, first);
    std::vector<float> sums(static_cast<size_t>(features));
    with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
      for (int64_t head = text * heads + group * shared, end = head + shared; head < end; ++head)
        mix(weight + head * longest, some_values, count, features, sums.data(), out + head * features);
    });
  });
  return output;
}

}  // namespace

bool has_cached_attention(const Tensor& queries, const Tensor& keys) {
  const at::ScalarType type = queries.scalar_type();
  return queries.is_cpu() && keys.scalar_type() == type && (type == at::kFloat || type == at::kBFloat16);
}

Tensor cached_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                        const std::vector<SeenKeys>& seen) {
  return queries.scalar_type() == at::kFloat ? attend<float>(queries, keys, values, seen)
                                             : attend<c10::BFloat16>(queries, keys, values, seen);
}

}  // namespace axonn
