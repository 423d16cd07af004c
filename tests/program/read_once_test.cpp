// --resume auto reads a manifest once.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/program/resume.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "support/forked.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

class ReadOnce : public testing::Test {
 protected:
  // Saved by the run's start "mine", or in another run.
  void save(int64_t step, const std::string& start) const {
    CheckpointState state = test::state_at(step);
    state.start = start;
    test::save(run(), Grid({}), state, {{"weights/w", {{Dim::whole(3)}, false}}}, {.keep = 9});
  }
  std::string run() const { return scratch_.path().string(); }
  std::string manifest(const std::string& step) const { return (scratch_ / step / "manifest.json").string(); }

  // System calls with the path of this manifest.
  static std::optional<int> calls(const std::string& manifest, const std::function<bool()>& work) {
    return test::calls_on({manifest}, work);
  }

  // As a training finds its checkpoint: of step 2.
  bool resumes() const {
    const auto newest = newest_whole_checkpoint(test::alone(), run());
    check_out(run(), newest, /*may_be_lost=*/true);
    return newest && newest->state().step == 2;
  }

  test::Scratch scratch_;
};

TEST_F(ReadOnce, OfTheNewestCheckpointAndOfNoOlderOne) {
  scratch_.file("starts.jsonl", "{\"start\":\"mine\"}\n");
  save(1, "mine");
  save(2, "mine");
  save(3, "another");
  const auto once = calls(manifest("step-000002"), [&] {
    const CheckpointReader reader(test::alone(), scratch_ / "step-000002");
    return reader.state().step == 2;
  });
  if (!once) GTEST_SKIP() << "this machine does not let a process trace its child";
  EXPECT_GT(*once, 0);
  EXPECT_EQ(calls(manifest("step-000003"), [&] { return resumes(); }), once);
  EXPECT_EQ(calls(manifest("step-000002"), [&] { return resumes(); }), once);
  EXPECT_EQ(calls(manifest("step-000001"), [&] { return resumes(); }), 0);
}

// Step 5 was put back by hand: a later start went on from step 2.
TEST_F(ReadOnce, ACheckpointThatTheRunHasLeftIsPassedBy) {
  scratch_.file("starts.jsonl", "{\"start\":\"first\"}\n{\"start\":\"second\",\"step\":2}\n");
  save(2, "first");
  save(5, "first");
  EXPECT_TRUE(resumes());
}

}  // namespace
}  // namespace axonn
