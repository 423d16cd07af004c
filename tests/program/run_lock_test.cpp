#include "program/run_lock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using test::Scratch;

constexpr RunLock::Times kQuick{.beat = 20ms, .silence = 400ms, .look = 5ms};

// The number of a process that is over.
int64_t process_that_ended() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

LockHolder elsewhere() {
  LockHolder holder = LockHolder::self();
  holder.host = "far-away";
  holder.kernel = "another";
  return holder;
}

class RunLockTest : public testing::Test {
  Scratch scratch_;

 protected:
  RunLockTest() { log::configure({.level = log::Level::error}); }

  fs::path out = scratch_ / "run";

  std::unique_ptr<RunLock> lock(const LockHolder& self = LockHolder::self()) {
    return std::make_unique<RunLock>(out, self, kQuick, [this] { lost = true; });
  }
  void leave(const LockHolder& holder, int number = 1) {
    fs::create_directories(out);
    std::ofstream(file(number)) << holder.to_json(7);
  }
  fs::path file(int number) const { return out / ("job-" + std::to_string(number) + ".lock"); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out)) names.push_back(entry.path().filename());
    return names;
  }
  std::string refusal(const LockHolder& self = LockHolder::self()) {
    try {
      lock(self);
    } catch (const UserError& error) {
      return error.sentence();
    }
    return "";
  }

  std::atomic<bool> lost = false;
};

TEST_F(RunLockTest, HoldsTheDirectoryAndLeavesNothing) {
  {
    const auto held = lock();
    EXPECT_EQ(files(), std::vector<std::string>{"job-1.lock"});
    const std::string why = refusal();
    EXPECT_NE(why.find("run is in use by process " + std::to_string(getpid()) + " on host "), std::string::npos) << why;
    EXPECT_NE(why.find(" since 20"), std::string::npos) << why;
    EXPECT_EQ(files(), std::vector<std::string>{"job-1.lock"});
  }
  EXPECT_FALSE(fs::exists(out));
  fs::create_directories(out);
  lock();
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(lost);
}

TEST_F(RunLockTest, TakesOverAtOnceWhereTheProcessIsGone) {
  LockHolder dead = LockHolder::self();
  dead.process = process_that_ended();
  LockHolder number_used_again = LockHolder::self();
  number_used_again.started = "1";
  for (const LockHolder& holder : {dead, number_used_again}) {
    leave(holder, 3);
    leave(dead, 2);
    const auto begin = std::chrono::steady_clock::now();
    const auto held = lock();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kQuick.silence);
    EXPECT_EQ(files(), std::vector<std::string>{"job-4.lock"});
  }
}

TEST_F(RunLockTest, TakesOverAtOnceWhatTheSameSlurmJobLeft) {
  LockHolder before = elsewhere();
  before.job = "55";
  LockHolder self = LockHolder::self();
  self.job = "55";
  self.restarts = 1;
  leave(before);
  const auto begin = std::chrono::steady_clock::now();
  const auto held = lock(self);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kQuick.silence);
}

TEST_F(RunLockTest, RefusesAnotherStepOfTheSameSlurmJobThatLives) {
  LockHolder self = LockHolder::self();
  self.job = "55";
  const auto held = lock(self);
  EXPECT_NE(refusal(self).find("(Slurm job 55)"), std::string::npos);
}

TEST_F(RunLockTest, TakesOverAfterSilenceAndNotBefore) {
  leave(elsewhere());
  const auto begin = std::chrono::steady_clock::now();
  const auto held = lock();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kQuick.silence);
  EXPECT_EQ(files(), std::vector<std::string>{"job-2.lock"});
}

TEST_F(RunLockTest, RefusesAJobOfAnotherHostThatGivesASign) {
  const auto held = lock(elsewhere());
  EXPECT_NE(refusal().find("on host far-away"), std::string::npos);
}

TEST_F(RunLockTest, NamesAJobWhoseFileCannotBeReadJustNow) {
  leave(elsewhere());
  std::thread emptied([this] {
    std::this_thread::sleep_for(kQuick.silence / 3);
    std::ofstream(file(1)) << "";
  });
  EXPECT_NE(refusal().find("on host far-away"), std::string::npos);
  emptied.join();
}

TEST_F(RunLockTest, WaitsForAFileThatNobodyHasWrittenYet) {
  fs::create_directories(out);
  std::ofstream(file(1)) << "";
  const auto begin = std::chrono::steady_clock::now();
  const auto held = lock();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kQuick.silence);
}

TEST_F(RunLockTest, OneOfManyTakesADeadLockOver) {
  LockHolder dead = LockHolder::self();
  dead.process = process_that_ended();
  for (int round = 0; round < 20; ++round) {
    leave(dead);
    std::atomic<int> holding = 0, refused = 0;
    std::vector<std::unique_ptr<RunLock>> locks(8);
    std::vector<std::thread> jobs;
    for (auto& mine : locks)
      jobs.emplace_back([&] {
        try {
          mine = lock();
          ++holding;
        } catch (const UserError&) {
          ++refused;
        }
      });
    for (std::thread& job : jobs) job.join();
    EXPECT_EQ(holding, 1);
    EXPECT_EQ(refused, 7);
    EXPECT_EQ(files().size(), 1U);
  }
  EXPECT_FALSE(lost);
}

// Jobs come and go, and some die: their lock then names a process that is gone.
TEST_F(RunLockTest, NeverTwoHoldIt) {
  const int64_t gone = process_that_ended();
  fs::create_directories(out);
  std::atomic<int> holding = 0, times = 0;
  std::vector<std::thread> jobs;
  for (int i = 0; i < 8; ++i)
    jobs.emplace_back([&, i] {
      LockHolder self = LockHolder::self();
      self.job = std::to_string(i);
      const auto die = [&](LockHolder holder) {
        holder.process = gone;
        for (const std::string& name : files())
          if (LockHolder::from_json(test::read(out / name)).job == self.job)
            std::ofstream(out / name) << holder.to_json(7);
      };
      for (int turn = 0; turn < 200; ++turn) {
        try {
          const auto mine = lock(self);
          EXPECT_EQ(++holding, 1);
          ++times;
          --holding;
          if ((turn + i) % 2 == 0) die(self);
        } catch (const UserError&) {
        }
      }
    });
  for (std::thread& job : jobs) job.join();
  EXPECT_GT(times, 10);
}

TEST_F(RunLockTest, TellsAJobThatAnotherHasTakenOver) {
  const auto held = lock();
  std::this_thread::sleep_for(3 * kQuick.beat);
  EXPECT_FALSE(lost);
  fs::remove(file(1));
  leave(elsewhere(), 1);
  for (int wait = 0; wait < 1000 && !lost; ++wait) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(lost);
}

TEST_F(RunLockTest, RefusesADirectoryThatCannotBeWritten) {
  out = "/proc/self";
  EXPECT_NE(refusal().find("cannot write /proc/self/job-1.lock"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace axonn
