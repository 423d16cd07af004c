#include "kernels/cpu/cached_attention.hpp"

#include <cmath>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace axonn {
namespace {

constexpr int64_t kLength = 90;

struct Tensors {
  at::Tensor queries, keys, values;
};

Tensors tensors(int64_t texts, int64_t heads, int64_t groups, int64_t features, at::ScalarType type) {
  torch::manual_seed(1);
  return {torch::randn({texts, heads, features}).to(type), torch::randn({texts, groups, kLength, features}).to(type),
          torch::randn({texts, groups, kLength, features}).to(type)};
}

// One text's head after the other, in fp64.
at::Tensor expected(const Tensors& of, const std::vector<SeenKeys>& seen) {
  at::Tensor all = at::empty(of.queries.sizes(), at::kDouble);
  const int64_t heads = of.queries.size(1), groups = of.keys.size(1);
  for (int64_t text = 0; text < of.queries.size(0); ++text)
    for (int64_t head = 0; head < heads; ++head) {
      const auto [first, count] = seen[static_cast<size_t>(text)];
      const auto part = [&](const at::Tensor& cache) {
        return cache[text][head / (heads / groups)].narrow(0, first, count).to(at::kDouble);
      };
      const at::Tensor query = of.queries[text][head].to(at::kDouble) / std::sqrt(of.queries.size(2));
      all[text][head].copy_(at::mv(part(of.values).t(), at::softmax(at::mv(part(of.keys), query), 0)));
    }
  return all;
}

TEST(CachedAttention, IsAttentionToTheSeenKeys) {
  const std::vector<SeenKeys> seen = {{0, 1}, {0, kLength}, {37, 30}};
  for (const auto& [type, bound] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 1e-2}})
    for (const auto& [heads, groups, features] :
         {std::tuple<int64_t, int64_t, int64_t>{9, 3, 64}, {4, 4, 7}, {12, 2, 80}, {1, 1, 16}}) {
      const Tensors some = tensors(3, heads, groups, features, type);
      ASSERT_TRUE(has_cached_attention(some.queries, some.keys));
      const at::Tensor got = cached_attention(some.queries, some.keys, some.values, seen);
      EXPECT_EQ(got.scalar_type(), type);
      EXPECT_LE((got.to(at::kDouble) - expected(some, seen)).abs().max().item<double>(), bound)
          << heads << " heads, " << groups << " of keys, " << features << " features";
    }
}

TEST(CachedAttention, DoesNotDependOnOtherTextsAndThreads) {
  const Tensors some = tensors(3, 6, 2, 64, at::kFloat);
  at::set_num_threads(1);
  const auto attend = [&](int64_t texts, int64_t few) {
    const std::vector<SeenKeys> seen = {{0, few}, {2, 80}, {0, kLength}};
    return cached_attention(some.queries.narrow(0, 0, texts), some.keys.narrow(0, 0, texts),
                            some.values.narrow(0, 0, texts), {seen.begin(), seen.begin() + texts});
  };
  for (int64_t few = 1; few <= kLength; ++few)
    EXPECT_TRUE(attend(1, few)[0].equal(attend(3, few)[0])) << few << " keys";
  const at::Tensor all = attend(3, 5);
  at::set_num_threads(4);
  EXPECT_TRUE(attend(3, 5).equal(all));
  at::set_num_threads(1);
}

TEST(CachedAttention, IsForFp32AndBf16) {
  const Tensors some = tensors(1, 2, 2, 8, at::kFloat);
  EXPECT_FALSE(has_cached_attention(some.queries.to(at::kDouble), some.keys.to(at::kDouble)));
  EXPECT_FALSE(has_cached_attention(some.queries.to(at::kHalf), some.keys.to(at::kHalf)));
  EXPECT_FALSE(has_cached_attention(some.queries, some.keys.to(at::kBFloat16)));
}

}  // namespace
}  // namespace axonn
