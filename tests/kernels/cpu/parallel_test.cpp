// Work divided among the threads of this process.
#include "kernels/cpu/parallel.hpp"

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace axonn {
namespace {

class Parallel : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(4); }
  void TearDown() override { at::set_num_threads(before_); }

  // The parts, and the threads that ran them.
  void divide(int64_t begin, int64_t end, int64_t grain) {
    parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
      const std::lock_guard lock(mutex_);
      parts_.insert({at::get_thread_num(), first, last});
      threads_.insert(std::this_thread::get_id());
    });
  }

  std::set<std::tuple<int, int64_t, int64_t>> parts_;
  std::set<std::thread::id> threads_;

 private:
  const int before_ = at::get_num_threads();
  std::mutex mutex_;
};

TEST_F(Parallel, RunsEveryPartOnAThreadOfItsOwn) {
  divide(3, 13, 1);
  EXPECT_EQ(parts_, (decltype(parts_){{0, 3, 6}, {1, 6, 9}, {2, 9, 12}, {3, 12, 13}}));
  EXPECT_EQ(threads_.size(), 4);
}

TEST_F(Parallel, GivesAThreadAtLeastTheGrain) {
  divide(0, 10, 4);
  EXPECT_EQ(parts_, (decltype(parts_){{0, 0, 4}, {1, 4, 8}, {2, 8, 10}}));
  EXPECT_EQ(threads_.size(), 3);
}

TEST_F(Parallel, StaysOnOneThread) {
  divide(0, 0, 1);
  EXPECT_TRUE(parts_.empty());
  divide(0, 10, 10);
  EXPECT_EQ(parts_, (decltype(parts_){{0, 0, 10}}));
  at::set_num_threads(1);
  parts_.clear();
  divide(0, 10, 1);
  EXPECT_EQ(parts_, (decltype(parts_){{0, 0, 10}}));
  EXPECT_EQ(threads_, std::set{std::this_thread::get_id()});
}

TEST_F(Parallel, PartsOfAPartAreOnItsThread) {
  std::mutex mutex;
  std::set<std::pair<std::thread::id, std::thread::id>> pairs;
  parallel_for(0, 4, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(0, 100, 1, [&](int64_t first, int64_t last) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(last - first, 100);
      pairs.emplace(outer, std::this_thread::get_id());
    });
  });
  EXPECT_EQ(pairs.size(), 4);
  for (const auto& [outer, inner] : pairs) EXPECT_EQ(outer, inner);
}

TEST_F(Parallel, ThrowsWhatAPartThrows) {
  EXPECT_THROW(parallel_for(0, 4, 1,
                            [](int64_t first, int64_t) {
                              if (first == 2) throw std::out_of_range("part 2");
                            }),
               std::out_of_range);
}

}  // namespace
}  // namespace axonn
