#include "kernels/cpu/cached_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "kernels/cpu/dot_lanes.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_chains.hpp"

namespace axonn {
namespace {

using at::Tensor;
using coconet::ElementType;
using coconet::PointwiseKernel;
using coconet::PointwiseOp;
using coconet::StageChain;

constexpr int64_t kGrain = 1 << 15;  // least elements of the keys for a thread

// Streams: score, replaced by exp(score - greatest). Scalars: greatest. The sum is that of the row.
StageChain exponential_chain() {
  PointwiseKernel kernel;
  const auto score = kernel.stream("score", ElementType::fp32);
  const PointwiseKernel::Value below =
      kernel.apply(PointwiseOp::subtract, {kernel.load(score), kernel.scalar("greatest", ElementType::fp32)});
  const PointwiseKernel::Value power = kernel.apply(PointwiseOp::fast_exponential, {below});
  kernel.store(score, power);
  kernel.reduce(ReduceOp::sum, power);
  return StageChain(kernel);
}

// A head of keys and values of one text, and the heads of queries that share it.
template <typename Element>
struct HeadGroup {
  const Element *queries, *keys, *values;
  Element* output;
  int64_t heads, count, features;
};

// The scores of kRows queries, and the greatest of each.
template <int64_t kRows, typename Element>
AXONN_INLINE void score(const float* queries, const HeadGroup<Element>& group, float* scores, float* greatest) {
  float sums[kRows];
  for (int64_t key = 0; key < group.count; ++key) {
    dots<kRows>(queries, group.keys + key * group.features, group.features, sums);
    for (int64_t r = 0; r < kRows; ++r) {
      scores[r * group.count + key] = sums[r];
      greatest[r] = std::max(greatest[r], sums[r]);
    }
  }
}

// The mean of all values, by weights with this sum.
template <typename Element>
AXONN_INLINE void mix(const float* weights, float sum, const HeadGroup<Element>& group, float* sums, Element* output) {
  std::fill_n(sums, group.features, 0.0F);
  for (int64_t key = 0; key < group.count; ++key) {
    const Element* const row = group.values + key * group.features;
    AXONN_INDEPENDENT for (int64_t j = 0; j < group.features; ++j) sums[j] += weights[key] * number(row[j]);
  }
  for (int64_t j = 0; j < group.features; ++j) output[j] = static_cast<Element>(sums[j] / sum);
}

template <typename Element>
void attend(const HeadGroup<Element>& group) {
  static const StageChain exponentials = exponential_chain();
  const int64_t heads = group.heads, count = group.count, features = group.features;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(features)));
  std::vector<float> queries(static_cast<size_t>(heads * features)), scores(static_cast<size_t>(heads * count)),
      greatest(static_cast<size_t>(heads), -std::numeric_limits<float>::infinity()),
      sums(static_cast<size_t>(features));
  with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
    for (int64_t i = 0; i < heads * features; ++i) queries[static_cast<size_t>(i)] = number(group.queries[i]) * scale;
    int64_t head = 0;
    for (; head + 4 <= heads; head += 4)
      score<4>(queries.data() + head * features, group, scores.data() + head * count, greatest.data() + head);
    for (; head < heads; ++head)
      score<1>(queries.data() + head * features, group, scores.data() + head * count, greatest.data() + head);
  });
  for (int64_t head = 0; head < heads; ++head) {
    float* const weights = scores.data() + head * count;
    void* const streams[] = {weights};
    const double scalars[] = {greatest[static_cast<size_t>(head)]};
    const double sum = run_sum(exponentials, {.count = count, .streams = streams, .scalars = scalars});
    with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
      mix(weights, static_cast<float>(sum), group, sums.data(), group.output + head * features);
    });
  }
}

template <typename Element>
Tensor attend(const Tensor& some_queries, const Tensor& keys, const Tensor& values, const std::vector<SeenKeys>& seen) {
  const Tensor queries = some_queries.contiguous(), output = at::empty(queries.sizes(), queries.options());
  const int64_t heads = queries.size(1), features = queries.size(2), groups = keys.size(1), shared = heads / groups;
  const int64_t longest = std::ranges::max(seen, {}, &SeenKeys::count).count;
  const auto* const from = queries.const_data_ptr<Element>();
  auto* const to = output.mutable_data_ptr<Element>();
  const auto rows_of = [](const Tensor& cache, int64_t text, int64_t group, int64_t first) {
    return cache.const_data_ptr<Element>() + text * cache.stride(0) + group * cache.stride(1) + first * cache.size(3);
  };
  parallel_for(0, keys.size(0) * groups, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, longest * features)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t text = i / groups, group = i % groups, head = text * heads + group * shared;
                   const auto [first, count] = seen[static_cast<size_t>(text)];
                   attend<Element>({.queries = from + head * features,
                                    .keys = rows_of(keys, text, group, first),
                                    .values = rows_of(values, text, group, first),
                                    .output = to + head * features,
                                    .heads = shared,
                                    .count = count,
                                    .features = features});
                 }
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
