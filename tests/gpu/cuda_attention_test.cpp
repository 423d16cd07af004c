// LibTorch's flash attention on a GPU, in parts as of a ring and for the last rows of a sequence,
// beside fp64 on the host.
#include <string>
#include <utility>
#include <vector>

#include "kernels/plain_attention.hpp"
#include "layers/ops/attention/blocked_attention.hpp"
#include "layers/ops/attention/flash_attention.hpp"
#include "layers/ops/attention/library_attention.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr double kRounding = 4e-2;  // results are up to 4, and sums of rounded parts

HeadTensors on_gpu(const HeadTensors& heads) {
  return {heads.queries.cuda(), heads.keys.cuda(), heads.values.cuda(), heads.grad.cuda()};
}

void expect_near(const Results& got, const Results& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(distance(got[i].cpu(), expected[i]), kRounding) << what << ", result " << i;
}

TEST(AttentionOnOneGpu, InPartsIsThatOfAllKeys) {
  for (const auto& [first, queries] : {std::pair{0, 600}, {300, 300}, {120, 400}}) {
    const HeadTensors heads = random_heads({queries, 600, 6, 2}, at::kBFloat16);
    EXPECT_TRUE(flash_attends(heads.queries.cuda(), {}));
    expect_near(attention_in_parts(attention_by_blocks, on_gpu(heads), {.first = first}),
                plain_attention(heads, {.first = first}), std::to_string(first));
  }
}

TEST(AttentionOnOneGpu, OfLaterRowsEndsWithTheKeys) {
  Context context(test_environment(), {}, {.dtype = at::kBFloat16, .device = c10::kCUDA});
  const HeadTensors heads = random_heads({150, 600, 6, 2}, at::kBFloat16), mine = on_gpu(heads);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& one : {mine.queries, mine.keys, mine.values}) leaves.push_back(one.clone().requires_grad_());
  const at::Tensor output =
      library_attention(context, {leaves[0], leaves[1], leaves[2]}, {.heads = 6}, {.first = 450, .sequence = 600})
          .view(heads.queries.sizes());
  output.backward(mine.grad);
  expect_near({output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()},
              plain_attention(heads, {.first = 450}), "later rows");
}

}  // namespace
}  // namespace axonn
