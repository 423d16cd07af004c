#include "axonn/layers/swiglu.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(Swiglu, IsLibTorchsSiluTimesTheOtherHalf) {
  for (const auto& [type, most] :
       {std::pair{at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 0.02}, {at::kHalf, 0.003}})
    for (const int64_t features : {1, 7, 96}) {
      const at::Tensor whole = whole_tensor(1, {130, 2 * features}).mul_(4);  // more rows than one block
      at::Tensor mine = whole.to(type).requires_grad_(), theirs = mine.detach().to(at::kDouble).requires_grad_();
      const Value result = swiglu({mine, 2 * features, Layout::over(Axis::x, {features, features})});
      const at::Tensor expected = at::silu(theirs.narrow(1, 0, features)) * theirs.narrow(1, features, features);
      const at::Tensor grad = whole_tensor(2, {130, features}).to(type);
      result.tensor.backward(grad);
      expected.backward(grad.to(at::kDouble));
      EXPECT_EQ(result.features, features);
      EXPECT_EQ(result.layout, Layout::over(Axis::x));
      const auto near = [&, bound = most](const at::Tensor& got, const at::Tensor& right) {
        EXPECT_LE((got.to(at::kDouble) - right).abs().max().item<double>(), bound * right.abs().max().item<double>())
            << type << ", " << features << " features";
      };
      near(result.tensor.detach(), expected.detach());
      near(mine.grad(), theirs.grad());
    }
}

TEST(Swiglu, NeedsTwoEqualHalves) {
  EXPECT_USER_ERROR(swiglu({at::zeros({2, 8}), 8, Layout::over(Axis::x)}), "two equal segments gate|value, got 8");
  EXPECT_USER_ERROR(swiglu({at::zeros({2, 8}), 8, Layout::over(Axis::x, {6, 2})}), "over x in segments 6|2");
}

}  // namespace
}  // namespace axonn
