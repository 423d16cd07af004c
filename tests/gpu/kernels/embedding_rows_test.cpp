// The kernels of an embedding's gradient give the sums of fp64.
#include "kernels/gpu/embedding_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

using namespace kernel_test;

struct Size {
  int64_t tokens, width, first, here, words;

  std::string text() const {
    return std::to_string(tokens) + " tokens of width " + std::to_string(width) + ", words " + std::to_string(first) +
           " to " + std::to_string(first + here) + " of " + std::to_string(words);
  }
};

// Word of each token.
using Ids = std::function<int64_t(int64_t)>;

// A third of the tokens are one word. Some are of other ranks, before and behind the words here.
Ids mixed_ids(const Size& size) {
  return [=](int64_t token) { return token % 3 == 0 ? size.first + 1 : token * token % (size.first + size.words + 5); };
}

// Word w as often as 1 / (1 + w), in a fixed disorder.
Ids zipf_ids(int64_t words) {
  return [=](int64_t token) {
    const double part = std::fmod(0.6180339887 * static_cast<double>(token), 1);
    return std::min(words - 1, static_cast<int64_t>(std::exp(part * std::log(1.0 + static_cast<double>(words)))) - 1);
  };
}

Ids all_equal(int64_t word) {
  return [=](int64_t) { return word; };
}

// One backward pass, and what it must give.
template <typename Element>
struct Pass {
  using Wide = axonn::Wide<Element>;

  Pass(const Size& size_, const Ids& ids_, int64_t skip = 0)
      : size(size_),
        gradients("gradients", size.tokens * size.width, waves(0.4), skip),
        ids("ids", size.tokens, [&](int64_t i) { return static_cast<double>(ids_(i)); }),
        sums("sums", size.words * size.width, all(3)) {}

  void run(bool add) {
    const TokenGradients tokens{.type = kType<Element>,
                                .tokens = size.tokens,
                                .width = size.width,
                                .gradients = gradients.in(),
                                .ids = ids.in(),
                                .first = size.first,
                                .here = size.here,
                                .words = size.words};
    Values<uint8_t> scratch("scratch", embedding_scratch_bytes(tokens), all(0xF9));
    embedding_backward(tokens, scratch.out(), sums.out(), add, 0);
  }

  void check(bool add) const {
    std::vector<double> expected(static_cast<size_t>(sums.size()), add ? 3 : 0);
    std::vector<int64_t> count(static_cast<size_t>(size.words));
    for (int64_t token = 0; token < size.tokens; ++token)
      if (const int64_t word = ids.at(token) - size.first; word >= 0 && word < size.here) {
        ++count[word];
        for (int64_t i = 0; i < size.width; ++i) expected[word * size.width + i] += gradients[token * size.width + i];
      }
    for (int64_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(sums[i], expected[i], (8 + 2 * static_cast<double>(count[i / size.width])) * kRounding<Wide>)
          << "word " << i / size.width << ", column " << i % size.width;
  }

  Size size;
  Values<Element> gradients;
  Values<int64_t> ids;
  Values<Wide> sums;
};

// The same bits in each order and time.
template <typename Element>
void expect_fp64(const Size& size, const Ids& ids, const std::string& what, bool add, int64_t skip = 0,
                 const Runs& runs = {}) {
  const Case named("embedding_backward, " + size.text() + ", " + what + (add ? ", added, " : ", ") + kName<Element>);
  std::vector<std::vector<std::byte>> bits;
  in_each_order(runs, [&] {
    Pass<Element> pass(size, ids, skip);
    pass.run(add);
    compare([&] { pass.check(add); });
    bits.push_back(pass.sums.bits());
  });
  compare([&] {
    for (const auto& some : bits) EXPECT_TRUE(some == bits[0]) << "not the same bits each time";
  });
}

// The order of tokens does not depend on the type: all orders of threads for one type.
template <typename Element>
constexpr Runs kRuns = std::is_same_v<Element, float> ? Runs{} : kLarge;

template <typename Element>
class EmbeddingRows : public testing::Test {};
TYPED_TEST_SUITE(EmbeddingRows, Elements);

// Packs and single elements; words of other ranks, padding, words only of other ranks; no tokens.
TYPED_TEST(EmbeddingRows, SumsEqualFp64) {
  for (const Size& size : {Size{50, 40, 2, 3, 4}, Size{30, 3, 20, 0, 2}, Size{0, 5, 0, 1, 1}})
    for (const bool add : {false, true})
      expect_fp64<TypeParam>(size, mixed_ids(size), "mixed", add, /*skip=*/size.width == 3 ? 1 : 0, kRuns<TypeParam>);
}

// A word of one chunk, and of one that is full, and of more; chunks that begin where others end.
TYPED_TEST(EmbeddingRows, SumsOfAFrequentWordEqualFp64) {
  for (const int64_t tokens :
       {1, kEmbeddingChunk - 1, +kEmbeddingChunk, kEmbeddingChunk + 1, 2 * kEmbeddingChunk, 3 * kEmbeddingChunk + 5})
    expect_fp64<TypeParam>({tokens, 8, 4, 3, 3}, all_equal(5), "all equal", /*add=*/tokens % 2 == 1, 0,
                           kRuns<TypeParam>);
}

// Two frequent words, of which one ends and one begins among the same places; a shard of words.
TYPED_TEST(EmbeddingRows, SumsOfSeveralFrequentWordsEqualFp64) {
  const auto turns = [](int64_t token) { return token % 7 == 3 ? 90 : 10 + token % 3; };
  for (const bool add : {false, true})
    expect_fp64<TypeParam>({900, 12, 11, 2, 5}, turns, "in turns", add, 0, kRuns<TypeParam>);
  expect_fp64<TypeParam>({1100, 5, 0, 5, 6}, zipf_ids(400), "Zipf", /*add=*/true, /*skip=*/1, kRuns<TypeParam>);
}

// More than one round of tokens, and hundreds of words for a block.
TEST(EmbeddingRowsOfManyWords, EqualFp64) {
  const Size size{1100, 2, 7, 8200, 8201};
  expect_fp64<float>(size, mixed_ids(size), "mixed", /*add=*/false, /*skip=*/0, {.on_host = 2});
}

// More columns than threads.
TEST(EmbeddingRowsOfWideRows, EqualFp64) {
  const Size size{9, 513, 0, 4, 4};
  expect_fp64<float>(size, mixed_ids(size), "mixed", /*add=*/true);
}

TEST(EmbeddingRowsOfUsers, EqualFp64) {
  for (const int64_t width : {768, 1280, 1600})
    expect_fp64<c10::BFloat16>(
        {400, width, 50304 - 6, 4, 6}, [](int64_t i) { return 50304 - 6 + i % 5; }, "the vocabulary's end",
        /*add=*/width > 1000, /*skip=*/0, kLarge);
}

// A whole vocabulary, whose blocks are too many for the host.
TEST(EmbeddingRowsLarge, EqualFp64) {
  expect_fp64<c10::BFloat16>({4096, 8, 0, 50257, 50304}, zipf_ids(50257), "Zipf", /*add=*/false, /*skip=*/0,
                             {.on_host = 0});
}

}  // namespace
}  // namespace axonn
