// The loss of split and padded vocabularies, against LibTorch in fp64.
#include <limits>
#include <utility>

#include <ATen/Parallel.h>

#include "axonn/layers/loss.hpp"
#include "layers/layer_fixture.hpp"
#include "kernels/cpu/cross_entropy_chains.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

at::Tensor whole_targets(int64_t seed, at::IntArrayRef sizes, int64_t vocabulary) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randint(vocabulary, sizes, generator, at::TensorOptions().dtype(at::kLong));
}

// The padding behind a part's entries of the vocabulary must not matter.
void spoil_padding(const Context& context, const Value& logits) {
  const auto held = logits.layout.dim(logits.features).local_ranges(context.shape(), context.at());
  const int64_t columns = held.empty() ? 0 : held[0].global.size(), size = logits.tensor.size(-1);
  logits.tensor.narrow(-1, columns, size - columns).fill_(std::numeric_limits<double>::quiet_NaN());
}

TEST(CrossEntropyOnEveryGrid, EqualsSerialWithPaddingAndIgnoredRows) {
  for (const int64_t vocabulary : {16, 21, 3, 4099})
    for (const auto& [dtype, loss_tolerance, tolerance] :
         {std::tuple{at::kDouble, 1e-13, 1e-12}, {at::kFloat, 1e-6, 1e-6}, {at::kBFloat16, 1e-6, 4e-3}}) {
      const at::Tensor given = (10 * whole_tensor(1, {16, 3, vocabulary})).to(dtype),
                       logits = given.to(at::kDouble, false, /*copy=*/true).requires_grad_(),
                       targets = whole_targets(2, {16, 3}, vocabulary);
      targets[5].fill_(kIgnoredTarget);
      const at::Tensor expected =
          at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::Mean, kIgnoredTarget);
      expected.backward();
      for (const GridShape& grid : every_grid()) {
        Context context(test_environment(), grid, {.dtype = dtype});
        Value mine = my_value(context, given, {.axis = Axis::x, .padded = true});
        spoil_padding(context, mine);
        mine.tensor.requires_grad_();
        const at::Tensor loss = mean(cross_entropy_sum(context, mine, my_rows(context, targets)), 15 * 3, context);
        loss.backward();
        const std::string what = std::string(c10::toString(dtype)) + " on " + grid.to_string();
        EXPECT_NEAR(loss.item<double>() / expected.item<double>(), 1, loss_tolerance) << what;
        const at::Tensor need = my_value(context, logits.grad(), mine.layout).tensor;
        if (need.numel() == 0) continue;
        EXPECT_LE((mine.tensor.grad().to(at::kDouble) - need).abs().max().item<double>(),
                  tolerance * logits.grad().abs().max().item<double>())
            << what;
      }
    }
}

TEST(CrossEntropyOnEveryGrid, OfEachRowEqualsSerial) {
  for (const int64_t vocabulary : {16, 21, 3}) {
    const at::Tensor logits = 10 * whole_tensor(1, {16, 3, vocabulary}),
                     targets = whole_targets(2, {16, 3}, vocabulary);
    targets[5].fill_(kIgnoredTarget);
    const at::Tensor expected =
        at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::None, kIgnoredTarget);
    for (const GridShape& grid : every_grid()) {
      Context context = context_on(grid);
      const Value mine = my_value(context, logits, {.axis = Axis::x, .padded = true});
      spoil_padding(context, mine);
      expect_near(cross_entropy_rows(context, mine, my_rows(context, targets)),
                  my_rows(context, expected.view({16, 3})), std::to_string(vocabulary) + " on " + grid.to_string());
      EXPECT_USER_ERROR(cross_entropy_rows(context, mine, my_rows(context, targets) + 30), "size of the vocabulary");
    }
  }
}

TEST(CrossEntropyOnCpu, IsRoundedOnceInEveryType) {
  for (const auto& [dtype, tolerance] :
       {std::pair{at::kDouble, 1e-14}, {at::kFloat, 5e-7}, {at::kBFloat16, 4e-3}, {at::kHalf, 5e-4}})
    for (const int64_t columns : {1, 31, 96, 2500}) {
      const at::Tensor logits = (5 * whole_tensor(1, {40, columns + 7}) + 300).to(dtype);
      const at::Tensor wide = logits.narrow(1, 0, columns).to(at::kDouble).requires_grad_();
      const at::Tensor targets = whole_targets(2, {40}, columns), here = targets.clone();
      here[3] = kIgnored;
      here[4] = kElsewhere;
      const at::Tensor maxima = row_maxima_on_cpu(logits, columns), sums = row_sums_on_cpu(logits, columns, maxima);
      EXPECT_TRUE(maxima.to(at::kDouble).equal(wide.detach().amax(1)));
      const at::Tensor need_sums = (wide - wide.amax(1, true)).exp().sum(1).detach();
      EXPECT_LE(((sums - need_sums) / need_sums).abs().max().item<double>(), dtype == at::kDouble ? 1e-14 : 3e-7);
      at::Tensor need = 3 * (wide.softmax(1) - at::one_hot(targets, columns)).detach();
      need[3].fill_(0);
      need[4] = 3 * wide.softmax(1)[4].detach();
      const at::Tensor grad = cross_entropy_gradient_on_cpu(logits, columns, maxima, sums, here, 3).to(at::kDouble);
      EXPECT_LE((grad.narrow(1, 0, columns) - need).abs().max().item<double>(), 3 * tolerance)
          << c10::toString(dtype) << " " << columns;
      EXPECT_EQ(grad.narrow(1, columns, 7).abs().max().item<double>(), 0);
    }
}

TEST(CrossEntropyOnCpu, HasTheSameBitsOnAnyNumberOfThreads) {
  const at::Tensor logits = whole_tensor(1, {70, 3001}).to(at::kFloat), targets = whole_targets(2, {70}, 3001);
  const auto all = [&] {
    const at::Tensor maxima = row_maxima_on_cpu(logits, 3001), sums = row_sums_on_cpu(logits, 3001, maxima);
    return std::pair{sums, cross_entropy_gradient_on_cpu(logits, 3001, maxima, sums, targets, 1)};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const auto several = all();
  at::set_num_threads(1);
  const auto one = all();
  EXPECT_TRUE(one.first.equal(several.first));
  EXPECT_TRUE(one.second.equal(several.second));
  at::set_num_threads(threads);
}

TEST(CrossEntropyOnCpu, RefusesATargetBeyondTheVocabulary) {
  Context context = context_on({.x = test_environment().ranks()});
  const Layout layout = {.axis = Axis::x, .padded = true};
  const Value logits = my_value(context, whole_tensor(1, {2, 5}), layout);
  for (const int64_t wrong : {5, -1}) {
    const at::Tensor targets = whole_targets(2, {2}, 5);
    targets[1] = wrong;
    EXPECT_USER_ERROR(cross_entropy_sum(context, logits, targets), "below 5, the size of the vocabulary, or -100",
                      "got " + std::to_string(wrong));
  }
}

}  // namespace
}  // namespace axonn
