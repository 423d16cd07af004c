// GPT and UNet under every linear schedule equal one rank on every grid. The overlap policy changes
// no bit.
#include <cstdio>

#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_unet.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

// Heads and channels divide by every axis of a grid of so many ranks.
MakeNetwork gpt_for(int ranks) {
  const DecoderConfig config = {
      .shape = {.layers = 2, .hidden = 4 * ranks, .heads = ranks, .sequence = 4, .vocabulary = 101, .tied_head = true},
      .dropout = 0.1,
      .checkpoint_every = 2};
  return decoder_on_synthetic_tokens(config, 1);
}

MakeNetwork unet_for(int ranks) {
  UnetConfig config = test::small_unet(ranks);
  config.checkpoint_every = 3;
  return test::unet_on_shapes(config);
}

// Of four ranks and more only those that split X and Y. The nightly run takes all.
std::vector<GridShape> grids() {
  std::vector<GridShape> some = factorisations(test_environment().ranks());
  if (test_environment().ranks() > 3 && !tests_everything())
    std::erase_if(some, [](const GridShape& grid) { return grid.x == 1 || grid.y == 1; });
  return some;
}

std::vector<double> numbers(const Verification& verification) {
  std::vector<double> all;
  for (const Difference& difference : verification.differences) all.push_back(difference.relative);
  return all;
}

class OnEveryGrid {
 public:
  OnEveryGrid(std::string network, MakeNetwork make) : network_(std::move(network)), make_(std::move(make)) {}
  ~OnEveryGrid() {
    if (test_environment().rank() == 0)
      std::printf("%s: %d of %d equal one rank; %d of %d pairs of policies have equal bits\n", network_.c_str(), equal_,
                  runs_, same_bits_, pairs_);
  }

  void run(LinearSchedule schedule) {
    Verifier overlapped(test_environment(), options(schedule, OverlapPolicy::all()), make_);
    Verifier blocking(test_environment(), options(schedule, OverlapPolicy::none()), make_);
    for (const GridShape& grid : grids()) {
      const std::string what = network_ + " by " + std::string(to_string(schedule)) + " on " + grid.to_string();
      const Verification one = overlapped.on(grid), other = blocking.on(grid);
      expect_equal(one, what);
      expect_equal(other, what + ", blocking");
      expect_ran(one, schedule, grid, what);
      const bool same = numbers(one) == numbers(other);
      EXPECT_TRUE(same) << what << ": bits depend on the policy";
      ++pairs_;
      same_bits_ += same ? 1 : 0;
    }
  }

 private:
  static VerificationOptions options(LinearSchedule schedule, const OverlapPolicy& policy) {
    return {.batch = 2 * test_environment().ranks(),
            .micro_batches = 2,
            .steps = 2,
            .overlap = policy,
            .forward = {.linear = schedule}};
  }

  void expect_equal(const Verification& verification, const std::string& what) {
    test::expect_within_tolerances(verification, what);
    ++runs_;
    equal_ += verification.passes() ? 1 : 0;
  }

  // Nothing but what was asked for: on one host, auto is mm-ar-c for these small products.
  static void expect_ran(const Verification& verification, LinearSchedule schedule, const GridShape& grid,
                         const std::string& what) {
    const LinearSchedule ran = schedule == LinearSchedule::automatic ? LinearSchedule::mm_ar_c : schedule;
    for (size_t i = 0; i < verification.linear_products.size(); ++i)
      EXPECT_EQ(verification.linear_products[i] > 0, i == static_cast<size_t>(ran) && grid.x * grid.y > 1)
          << what << ": " << verification.linear_products[i] << " by " << Names<LinearSchedule>::all[i].name;
  }

  std::string network_;
  MakeNetwork make_;
  int runs_ = 0, equal_ = 0, pairs_ = 0, same_bits_ = 0;
};

TEST(EveryLinearSchedule, OfAGptEqualsOneRank) {
  OnEveryGrid gpt("gpt", gpt_for(test_environment().ranks()));
  for (const auto& [name, schedule] : Names<LinearSchedule>::all) gpt.run(schedule);
}

TEST(EveryLinearSchedule, OfAUnetEqualsOneRank) {
  OnEveryGrid unet("unet", unet_for(test_environment().ranks()));
  for (const auto& [name, schedule] : Names<LinearSchedule>::all) unet.run(schedule);
}

}  // namespace
}  // namespace axonn
