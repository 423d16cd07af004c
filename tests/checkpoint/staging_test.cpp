#include "axonn/checkpoint/staging.hpp"

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "axonn/core/error.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr std::byte kChanged{0xFF};

// Parts of uneven sizes, one of them empty and two larger than a piece.
class Parts {
 public:
  Parts() {
    for (const size_t size : {size_t{3}, size_t{0}, size_t{9} << 20, size_t{1}, (size_t{5} << 20) + 7, size_t{1000}}) {
      auto& part = parts_.emplace_back(size);
      for (size_t i = 0; i < size; ++i) part[i] = static_cast<std::byte>((i * 2654435761U + size) >> 9 & 0x7F);
    }
  }
  std::vector<Staging::Bytes> views() const { return {parts_.begin(), parts_.end()}; }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (const auto& part : parts_) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  void change() {
    for (auto& part : parts_) std::ranges::fill(part, kChanged);
  }

 private:
  std::vector<std::vector<std::byte>> parts_;
};

const int64_t kAll = std::ssize(Parts().bytes());

// When the first piece is written, as many bytes are copied as there is memory for, and no more.
TEST(Staging, CopiesComeBeforeWritesAndTakeNoMoreThanTheirMemory) {
  for (const int64_t memory : {int64_t{0}, int64_t{1}, int64_t{1000}, kAll / 4, kAll - 1, kAll, 2 * kAll}) {
    Parts parts;
    auto expected = parts.bytes();
    std::vector<std::byte> written;
    Staging staging(memory);
    int64_t first = -1;
    staging.pass(parts.views(), [&](Staging::Bytes piece) {
      if (first < 0) {
        EXPECT_EQ(staging.copied(), memory >= kAll);
        if (memory == 0) written.assign(piece.begin(), piece.end());
        parts.change();
        first = std::ssize(piece);
        if (memory == 0) return;
      }
      written.insert(written.end(), piece.begin(), piece.end());
    });
    std::fill(expected.begin() + std::min(kAll, memory > 0 ? memory : first), expected.end(), kChanged);
    EXPECT_TRUE(written == expected) << memory;
    EXPECT_TRUE(staging.copied());
  }
}

TEST(Staging, WhatChangesAfterTheWaitIsNotWritten) {
  for (const int64_t memory : {int64_t{0}, int64_t{100000}, kAll / 4, kAll}) {
    Parts parts;
    const auto expected = parts.bytes();
    std::vector<std::byte> written;
    Staging staging(memory);
    std::thread thread([&] {
      staging.pass(parts.views(), [&](Staging::Bytes piece) {
        if (written.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        written.insert(written.end(), piece.begin(), piece.end());
      });
    });
    staging.wait_until_copied();
    parts.change();
    thread.join();
    EXPECT_TRUE(written == expected) << memory;
  }
}

int64_t page_faults_of(Staging& staging, Parts& parts) {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  staging.pass(parts.views(), [](Staging::Bytes) {});
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(Staging, CopiesFindThePagesOfTheCopiesBeforeThem) {
  Parts parts;
  CopyMemory memory;
  Staging first(kAll, &memory), second(kAll, &memory), smaller(kAll / 2, &memory), without(kAll);
  const int64_t usual = page_faults_of(first, parts);
  EXPECT_GT(usual, 4);  // with pages of 2 MiB
  EXPECT_LT(page_faults_of(second, parts), 4);
  EXPECT_LT(page_faults_of(smaller, parts), 4);
  EXPECT_GT(page_faults_of(without, parts), 4);
}

TEST(Staging, TouchedMemoryHasThePagesOfTheFirstCopiesAlsoWhenItGrows) {
  Parts parts;
  CopyMemory touched, grown;
  touched.touch(static_cast<size_t>(kAll), {});
  grown.touch(static_cast<size_t>(kAll - 1000), {});
  Staging all(kAll, &touched), more(kAll, &grown);
  EXPECT_LT(page_faults_of(all, parts), 4);
  EXPECT_LT(page_faults_of(more, parts), 4);
}

TEST(Staging, MemoryIsNotTouchedAnyMoreWhenASaveNeedsIt) {
  Parts parts;
  CopyMemory memory;
  std::stop_source stop;
  stop.request_stop();
  memory.touch(static_cast<size_t>(kAll), stop.get_token());
  Staging staging(kAll, &memory);
  EXPECT_GT(page_faults_of(staging, parts), 4);
}

TEST(Staging, ASaveThatIsGivenUpEndsWithItsNextPiece) {
  for (const int64_t memory : {int64_t{0}, int64_t{1000}, kAll}) {
    const Parts parts;
    Staging staging(memory);
    int pieces = 0;
    EXPECT_THROW(staging.pass(parts.views(),
                              [&](Staging::Bytes) {
                                ++pieces;
                                staging.give_up();
                              }),
                 BackendError);
    EXPECT_EQ(pieces, 1);
    staging.release();
    staging.wait_until_copied();
  }
}

TEST(Staging, NoPartsAreCopiedAtOnce) {
  Staging staging(8);
  staging.pass({}, [](Staging::Bytes) { FAIL(); });
  EXPECT_TRUE(staging.copied());
  EXPECT_USER_ERROR(Staging(-1), "memory for copies must be at least 0 bytes, got -1");
}

}  // namespace
}  // namespace axonn
