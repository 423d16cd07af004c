// Keys that come in blocks, in any order, give the attention of all of them at once.
#include "layers/ops/attention/blocked_attention.hpp"

#include <string>
#include <utility>

#include "kernels/plain_attention.hpp"
#include "layers/ops/attention/flash_attention.hpp"

namespace axonn {
namespace {

using namespace test;

std::unique_ptr<AttentionByBlocks> by_libtorch(const at::Tensor& queries, int64_t key_heads, AttentionRules rules) {
  return std::make_unique<BlockedAttention>(queries, key_heads, std::move(rules));
}

TEST(BlockedAttention, IsThatOfAllKeysAtOnce) {
  const HeadTensors long_ones = random_heads({600, 600, 2, 1}), grouped = random_heads({20, 20, 6, 2});
  expect_plain(by_libtorch, long_ones, {}, 1e-12, "causal");
  expect_plain(by_libtorch, long_ones, {.sight = {.causal = false}}, 1e-12, "all keys");
  expect_plain(by_libtorch, long_ones, {.sight = {.window = 270}}, 1e-12, "a window");
  expect_plain(by_libtorch, grouped, {.sight = {.window = 4}}, 1e-12, "a short window");
}

TEST(BlockedAttention, AddsMasksAndDropsProbabilities) {
  const HeadSizes sizes{20, 20, 6, 2};
  const HeadTensors heads = random_heads(sizes);
  const at::Tensor documents = documents_mask(sizes, 0, 10);
  expect_plain(by_libtorch, heads, {.added = documents}, 1e-12, "documents");
  expect_plain(by_libtorch, heads, {.added = documents, .factors = dropout_factors(sizes)}, 1e-12, "dropout");
}

TEST(BlockedAttention, OfNarrowHeadsHasSumsInFp32) {
  expect_plain(by_libtorch, random_heads({600, 600, 2, 1}, at::kBFloat16), {}, 2e-2, "bf16");
  expect_plain(by_libtorch, random_heads({600, 600, 2, 1}, at::kFloat), {}, 1e-5, "fp32");
}

// LibTorch's kernel has other names on a CPU and on a GPU, and the same parts.
std::unique_ptr<AttentionByBlocks> by_flash(const at::Tensor& queries, int64_t key_heads, const AttentionRules& rules) {
  return std::make_unique<FlashAttention>(queries, key_heads, rules);
}

TEST(FlashAttention, IsThatOfAllKeysAtOnce) {
  expect_plain(by_flash, random_heads({600, 600, 2, 1}), {}, 1e-12, "causal");
  expect_plain(by_flash, random_heads({20, 20, 6, 2}), {}, 1e-12, "grouped heads");
  expect_plain(by_flash, random_heads({20, 20, 6, 2}), {.sight = {.causal = false}}, 1e-12, "all keys");
}

// Keys come in two parts of 10: before the queries, around their middle, and around their ends.
TEST(FlashAttention, BeginsInTheMiddle) {
  for (const auto& [first, queries] : {std::pair{12, 8}, {4, 12}, {0, 5}, {8, 2}, {0, 20}, {9, 11}})
    expect_plain(by_flash, random_heads({queries, 20, 6, 2}), {.first = first}, 1e-12,
                 std::to_string(queries) + " queries from " + std::to_string(first));
}

// Each part adds rounded numbers to gradients of up to 4.
TEST(FlashAttention, RoundsEachPart) {
  expect_plain(by_flash, random_heads({600, 600, 2, 1}, at::kBFloat16), {}, 4e-2, "bf16");
  expect_plain(by_flash, random_heads({600, 600, 2, 1}, at::kFloat), {}, 1e-5, "fp32");
}

}  // namespace
}  // namespace axonn
