// The tests' own check of bytes that a kernel must not change, with memory whose ends are guarded
// as on a device.
#include "gpu/kernels/kernel_values.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"

namespace kernel_test {

bool running = true, broken = false;

size_t guard_bytes() { return 16; }
std::byte* allocate(size_t bytes) { return new std::byte[bytes]; }
void release(std::byte* memory, size_t) { delete[] memory; }
void copy_to_kernels(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
void copy_from_kernels(std::byte* to, const std::byte* from, size_t bytes) {
  if (broken) throw std::runtime_error("the device is lost");
  std::memcpy(to, from, bytes);
}
bool kernels_run() { return running; }

namespace {

// Stands for a kernel that writes number `at` of three, and reads others.
void with_three(int at, bool reads_only = false, int64_t skip = 0) {
  Values<float> values("result", 3, all(1), skip);
  float* const numbers = reads_only ? const_cast<float*>(values.in()) : values.out();
  numbers[at] = 5;
  EXPECT_EQ(values[0] + values[1] + values[2], at >= 0 && at < 3 ? 7 : 3);
}

TEST(KernelValues, AreWritten) {
  for (const int at : {0, 1, 2}) with_three(at);
}

TEST(KernelValues, ThatAreWrittenOutsideFail) {
  EXPECT_NONFATAL_FAILURE(with_three(-1), "result: written before its begin, as far as 4 bytes before it");
  EXPECT_NONFATAL_FAILURE(with_three(-4), "result: written before its begin, as far as 16 bytes before it");
  EXPECT_NONFATAL_FAILURE(with_three(-2, false, /*skip=*/1), "written before its begin, as far as 8 bytes before it");
  EXPECT_NONFATAL_FAILURE(with_three(3), "result: written behind its end, first 0 bytes behind it");
  EXPECT_NONFATAL_FAILURE(with_three(6), "result: written behind its end, first 12 bytes behind it");
}

TEST(KernelValues, ToReadThatAreWrittenFail) {
  EXPECT_NONFATAL_FAILURE(with_three(1, /*reads_only=*/true), "result: is to be read only, and element 1 changed");
}

TEST(KernelValues, ThatAreNeverReadBackAreWatchedToo) {
  EXPECT_NONFATAL_FAILURE(
      {
        Values<c10::BFloat16> values("weights", 2, waves(0));
        const_cast<c10::BFloat16*>(values.in())[2] = 0.0f;
      },
      "weights: written behind its end");
}

TEST(KernelValues, ReadOutsideAreNoNumbers) {
  Values<double> wide("wide", 1, all(0));
  Values<c10::Half> narrow("narrow", 1, all(0));
  EXPECT_TRUE(std::isnan(wide.in()[1]) && std::isnan(wide.in()[-1]));
  EXPECT_TRUE(std::isnan(static_cast<float>(narrow.in()[1])));
}

TEST(KernelValues, StayAsTheyWereWhereKernelsDoNotRun) {
  running = false;
  Values<float> values("result", 3, all(1));
  values.out()[1] = 5;
  EXPECT_EQ(values[1], 1);
  compare([] { ADD_FAILURE(); });
  running = true;
}

TEST(KernelValues, OfALostDeviceFailAndDoNotThrowAtTheirEnd) {
  EXPECT_NONFATAL_FAILURE(
      {
        Values<float> values("result", 3, all(1));
        values.out();
        broken = true;
      },
      "result: the device is lost");
  broken = false;
}

void a_case_that_fails() {
  const Case named("a kernel, 3 x 4, bf16");
  ADD_FAILURE() << "element 7";
}
void a_case_that_throws() {
  const Case named("a kernel, 5 x 6");
  throw std::runtime_error("no launch");
}

TEST(KernelCase, NamesFailures) {
  EXPECT_NONFATAL_FAILURE(a_case_that_fails(), "a kernel, 3 x 4, bf16");
  const auto caught = [] { EXPECT_THROW(a_case_that_throws(), std::runtime_error); };
  EXPECT_NONFATAL_FAILURE(caught(), "a kernel, 5 x 6");
}

TEST(KernelCase, IsCounted) {
  const CaseCounts before = case_counts();
  {
    const Case named("right");
  }
  const CaseCounts after = case_counts();
  EXPECT_EQ(after.cases, before.cases + 1);
  EXPECT_EQ(after.failed, before.failed);
}

}  // namespace
}  // namespace kernel_test
