// The fused cross entropy, with its kernels on the host, of split and padded vocabularies, against
// LibTorch in fp64.
#include "layers/ops/fused_cross_entropy.hpp"

#include <cmath>
#include <limits>
#include <tuple>

#include "axonn/layers/loss.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// Over this rank's rows, of logits whose padding must not matter.
at::Tensor fused_sum(Context& context, const Value& logits, const at::Tensor& targets) {
  const auto held = logits.layout.dim(logits.features).local_ranges(context.shape(), context.at());
  const Range columns = held.empty() ? Range{} : held[0].global;
  const int64_t size = logits.tensor.size(-1);
  logits.tensor.narrow(-1, columns.size(), size - columns.size()).fill_(std::numeric_limits<double>::quiet_NaN());
  logits.tensor.requires_grad_();
  const std::optional<Axis> axis = context.shape().x > 1 ? std::optional(Axis::x) : std::nullopt;
  const VocabularyPart part{.axis = axis, .columns = columns, .vocabulary = logits.features, .ignored = kIgnoredTarget};
  return record(fused_cross_entropy(context, part, targets), logits.tensor);
}

at::Tensor targets_of(int64_t rows, int64_t vocabulary) {
  const at::Tensor targets = at::arange(rows * 3).mul(7).remainder(vocabulary).view({rows, 3});
  targets[1].fill_(kIgnoredTarget);
  return targets;
}

std::vector<GridShape> grids() {
  std::vector<GridShape> all = every_grid();
  std::erase_if(all, [](const GridShape& grid) { return grid.y > 1 || grid.data > 1; });
  return all;
}

// In fp32 the probabilities are exp() of differences of numbers around 30 that are rounded.
TEST(FusedCrossEntropy, EqualsSerialWithPaddingAndIgnoredRows) {
  for (const GridShape& grid : grids())
    for (const int64_t vocabulary : {3, 21, 4099})
      for (const auto& [dtype, loss_tolerance, tolerance] :
           {std::tuple{at::kDouble, 1e-13, 1e-12}, {at::kFloat, 1e-6, 4e-6}, {at::kBFloat16, 1e-6, 4e-3}}) {
        Context context(test_environment(), grid, {.dtype = dtype});
        const at::Tensor given = (10 * whole_tensor(1, {8, 3, vocabulary})).to(dtype),
                         logits = given.to(at::kDouble, false, /*copy=*/true).requires_grad_(),
                         targets = targets_of(8, vocabulary);
        const at::Tensor expected =
            at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::Mean, kIgnoredTarget);
        expected.backward();
        const Value mine = my_value(context, given, {.axis = Axis::x, .padded = true});
        const at::Tensor loss = mean(fused_sum(context, mine, my_rows(context, targets)), 7 * 3, context);
        loss.backward();
        const std::string what = std::string(c10::toString(dtype)) + " on " + grid.to_string();
        EXPECT_NEAR(loss.item<double>() / expected.item<double>(), 1, loss_tolerance) << what;
        const at::Tensor need = my_value(context, logits.grad(), mine.layout).tensor;
        EXPECT_LE((mine.tensor.grad().to(at::kDouble) - need).abs().max().item<double>(),
                  tolerance * logits.grad().abs().max().item<double>())
            << what;
        EXPECT_TRUE(mine.tensor.equal(mine.tensor.grad())) << "the gradient is in the place of the logits";
      }
}

TEST(FusedCrossEntropy, HasOneBackward) {
  Context context = context_on({.x = test_environment().ranks()});
  const Value logits = my_value(context, whole_tensor(1, {2, 3, 21}), {.axis = Axis::x, .padded = true});
  const at::Tensor loss = fused_sum(context, logits, targets_of(2, 21));
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_USER_ERROR(loss.backward(), "in the place of the logits", "choose kernels without cross-entropy");
}

TEST(FusedCrossEntropy, OfATargetBeyondTheVocabularyIsNaN) {
  Context context = context_on({.x = test_environment().ranks()});
  for (const int64_t wrong : {21, -1}) {
    const Value logits = my_value(context, whole_tensor(1, {2, 3, 21}), {.axis = Axis::x, .padded = true});
    const at::Tensor targets = targets_of(2, 21);
    targets[0][1] = wrong;
    EXPECT_TRUE(std::isnan(fused_sum(context, logits, targets).item<double>())) << wrong;
  }
}

}  // namespace
}  // namespace axonn
