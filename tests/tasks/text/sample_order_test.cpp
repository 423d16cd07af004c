// Every grid, batch size and start takes the same samples in the same order, and an epoch has each
// of them once.
#include <numeric>
#include <set>
#include <vector>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/tasks/text/text_task.hpp"
#include "axonn/train/batch_plan.hpp"
#include "data/shards/shard_files.hpp"
#include "support/every_grid.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kSequence = 8, kSamples = 96, kVocabulary = 1300;
constexpr int64_t kFirstOfB = 1000;

// All samples of some steps, each taken by the ranks whose plan says so. At step `resumed` the task
// is made anew.
at::Tensor samples_of(Context& context, Decoder& model, const TokenData& data, int64_t batch, int64_t resumed) {
  const Coordinate at = context.grid().coordinate(context.rank());
  const BatchPlan plan = plan_batch(batch, batch / 8, context.grid().shape(), at);
  at::Tensor seen = at::zeros({kSamples, kSequence}, at::kLong);
  std::optional<TextTask> task;
  for (int64_t step = 0; step < kSamples / batch; ++step) {
    if (step == 0 || step == resumed) task.emplace(context, model, data, /*seed=*/1, /*validation_rows=*/1);
    for (int64_t j = 0; j < plan.micro_batches; ++j) {
      const int64_t first = plan.first_sample(step, j);
      const at::Tensor ids = task->inputs(first, plan.micro_batch)[0][0];
      if (at.x == 0 && at.y == 0) seen.narrow(0, first, plan.micro_batch) += ids;
    }
  }
  test_environment().world().all_reduce(seen, ReduceOp::sum).wait();
  return seen;
}

uint64_t hash_of(const at::Tensor& samples) {
  uint64_t hash = 14695981039346656037U;
  for (int64_t i = 0; i < samples.numel(); ++i)
    hash = (hash ^ static_cast<uint64_t>(samples.const_data_ptr<int64_t>()[i])) * 1099511628211U;
  return hash;
}

class SampleOrderOnEveryGrid : public testing::Test {
 protected:
  // Tokens that say where they stand: 60 windows of a, and 36 of b.
  TokenData load(int64_t weight_of_a, int64_t weight_of_b) const {
    const auto shard = [&](const char* name, int64_t tokens, int64_t first, int64_t weight) {
      Tokens ids(static_cast<size_t>(tokens));
      std::iota(ids.begin(), ids.end(), first);
      return NamedData{.path = scratch.file(name, llmc_file(ids, 2)), .format = ShardFormat::llmc, .weight = weight};
    };
    return TokenData::load({.data = {shard("a", 60 * kSequence + 1, 0, weight_of_a),
                                     shard("b", 36 * kSequence + 1, kFirstOfB, weight_of_b)},
                            .validation_fraction = 0,
                            .vocabulary = kVocabulary});
  }

  static void for_every_case(const TokenData& data, const std::function<void(const at::Tensor&)>& check) {
    for (const GridShape& grid : every_grid())
      for (const int64_t batch : {8, 24}) {
        SCOPED_TRACE(grid.to_string() + " batch " + std::to_string(batch));
        Context context(test_environment(), grid);
        Decoder model(
            context,
            {.shape = {.layers = 1, .hidden = 64, .heads = 8, .sequence = kSequence, .vocabulary = kVocabulary}});
        check(samples_of(context, model, data, batch, /*resumed=*/batch / 8));
      }
  }

  Scratch scratch;
};

TEST_F(SampleOrderOnEveryGrid, AnEpochHasEverySampleOnce) {
  const TokenData data = load(0, 0);
  for_every_case(data, [&](const at::Tensor& samples) {
    std::set<int64_t> firsts;
    for (int64_t i = 0; i < kSamples; ++i) firsts.insert(samples[i][0].item<int64_t>());
    std::set<int64_t> all;
    for (int64_t i = 0; i < 60; ++i) all.insert(i * kSequence);
    for (int64_t i = 0; i < 36; ++i) all.insert(kFirstOfB + i * kSequence);
    EXPECT_EQ(firsts, all);
    EXPECT_EQ(hash_of(samples), 4110459593147251941U);
  });
}

TEST_F(SampleOrderOnEveryGrid, ABlendIsTheSameToo) {
  const TokenData data = load(2, 1);
  for_every_case(data, [&](const at::Tensor& samples) {
    int64_t of_a = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      of_a += samples[i][0].item<int64_t>() < kFirstOfB;
      EXPECT_LT(std::abs(3 * of_a - 2 * (i + 1)), 3) << i;
    }
    EXPECT_EQ(hash_of(samples), 14152276072569150117U);
  });
}

}  // namespace
}  // namespace axonn
