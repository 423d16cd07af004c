// The kernels of an embedding's gradient, run on the host, give the sums of fp64.
#include "layers/fused/embedding_rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/host/host_values.hpp"
#include "layers/ops/packs.cuh"

namespace axonn {
namespace {

using host_cuda::kOrders;
using host_cuda::kRounding;
using host_cuda::kType;
using host_cuda::Order;
using host_cuda::Values;

struct Size {
  int64_t tokens, width, first, here, words;
};

// One backward pass, and what it must give. A third of the tokens are one word.
template <typename Element>
struct Pass {
  using Wide = axonn::Wide<Element>;

  Pass(const Size& size_, int64_t skip = 0) : size(size_), gradients(size.tokens * size.width, 0.4, skip) {
    for (int64_t token = 0; token < size.tokens; ++token)
      ids.push_back(token % 3 == 0 ? size.first + 1 : token * token % (size.first + size.words + 5));
  }

  void run(bool add) {
    const TokenGradients tokens{.type = kType<Element>,
                                .tokens = size.tokens,
                                .width = size.width,
                                .gradients = gradients.begin(),
                                .ids = ids.data(),
                                .first = size.first,
                                .here = size.here,
                                .words = size.words};
    std::vector<double> scratch(static_cast<size_t>(embedding_scratch_bytes(tokens) + 7) / 8, -7);
    sums.assign(static_cast<size_t>(size.words * size.width), 3);
    embedding_backward(tokens, scratch.data(), sums.data(), add, 0);
  }

  void check(bool add, const std::string& what) const {
    std::vector<double> expected(sums.size(), add ? 3 : 0);
    for (int64_t token = 0; token < size.tokens; ++token)
      if (const int64_t word = ids[token] - size.first; word >= 0 && word < size.here)
        for (int64_t i = 0; i < size.width; ++i) expected[word * size.width + i] += gradients[token * size.width + i];
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(sums[i], expected[i], (3 + static_cast<double>(size.tokens)) * kRounding<Wide>) << what << ", " << i;
  }

  Size size;
  Values<Element> gradients;
  std::vector<int64_t> ids;
  std::vector<Wide> sums;
};

template <typename Element>
class EmbeddingRows : public testing::Test {};
using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(EmbeddingRows, Elements);

// Packs and single elements; words of other ranks, padding, words only of other ranks; no tokens.
constexpr Size kSizes[] = {{50, 40, 2, 3, 4}, {30, 3, 20, 0, 2}, {0, 5, 0, 1, 1}};

TYPED_TEST(EmbeddingRows, SumsEqualFp64InEveryOrder) {
  for (const Size& size : kSizes)
    for (const Order order : kOrders) {
      host_cuda::order = order;
      const bool add = order != Order::descending;
      Pass<TypeParam> pass(size, /*skip=*/size.width == 3 ? 1 : 0);
      pass.run(add);
      pass.check(add, std::to_string(size.tokens) + " tokens of " + std::to_string(size.words) + " words");
    }
}

// More than one round of tokens, and hundreds of words for a block.
TEST(EmbeddingRowsBits, AreTheSameInEveryOrder) {
  std::vector<std::vector<float>> sums;
  for (const Order order : kOrders) {
    host_cuda::order = order;
    Pass<float> pass({1100, 2, 7, 8200, 8201});
    pass.run(/*add=*/false);
    pass.check(/*add=*/false, "many words");
    sums.push_back(pass.sums);
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

// More columns than threads.
TEST(EmbeddingRowsBits, OfWideRows) {
  host_cuda::order = Order::ascending;
  Pass<float> pass({9, 513, 0, 4, 4});
  pass.run(/*add=*/true);
  pass.check(/*add=*/true, "wide rows");
}

}  // namespace
}  // namespace axonn
