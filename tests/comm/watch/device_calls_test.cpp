#include "comm/watch/device_calls.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "comm/watch/call_signature.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kChannel = kDeviceChannel | 4;

// A device that is past the marks in `past`.
class Device final : public DeviceCalls::Queue {
 public:
  Device(std::string name, uint32_t channel) : Queue({.axes = {}, .ranks = {0, 2}, .index = 0}, name, channel) {}

  bool passed(const DeviceCalls::Mark& mark) override { return past.contains(mark.get()); }
  void abort(std::span<const std::shared_ptr<Queue>> all) noexcept override {
    for (const auto& queue : all) static_cast<Device&>(*queue).ended.set_value();
  }

  std::set<const void*> past;
  std::promise<void> ended;
};

class DeviceCallsTest : public testing::Test {
 protected:
  // Returns its mark.
  DeviceCalls::Mark call(Device& on, const char* collective = "all-reduce", int peer = -1) {
    DeviceCalls::Mark mark = std::make_shared<int>();
    calls.called(on, {.collective = collective, .tag = "h.3", .bytes = 4096, .peer = peer}, mark);
    return mark;
  }
  HangState state() {
    HangState result{.last_numbers = recorder->last_numbers()};
    calls.describe(result);
    return result;
  }

  const std::shared_ptr<FlightRecorder> recorder = std::make_shared<FlightRecorder>();
  const std::shared_ptr<std::atomic<bool>> host_knows = std::make_shared<std::atomic<bool>>(false);
  DeviceCalls calls{recorder, host_knows};
  const std::shared_ptr<Device> device = std::make_shared<Device>("x", kChannel);
};

TEST_F(DeviceCallsTest, ACallThatMakesNoProgressIsLate) {
  calls.add(device);
  const auto first = call(*device);
  call(*device);
  const auto now = DeviceCalls::Clock::now();
  EXPECT_FALSE(calls.late(now + 59s, 0s, 60s));
  const auto late = calls.late(now + 61s, 0s, 60s);
  ASSERT_TRUE(late);
  EXPECT_EQ(*late, "all-reduce #1 of group 'x' (4.00 KiB = 4096 bytes, tag 'h.3')");
  device->past = {first.get()};
  EXPECT_FALSE(calls.late(now + 59s, 0s, 60s));
  EXPECT_NE(calls.late(now + 3600s, 0s, 60s).value_or("").find("#2"), std::string::npos);
}

TEST_F(DeviceCallsTest, ATimeInWhichTheProcessWasStoppedDoesNotCount) {
  calls.add(device);
  call(*device);
  const auto now = DeviceCalls::Clock::now();
  EXPECT_FALSE(calls.late(now + 100s, 90s, 60s));
  EXPECT_TRUE(calls.late(now + 152s, 0s, 60s));
}

TEST_F(DeviceCallsTest, TheReportHasTheCallToWhichTheDeviceHasCome) {
  calls.add(device);
  const auto first = call(*device);
  EXPECT_TRUE(state().waits);
  call(*device);
  call(*device);
  EXPECT_EQ(recorder->last_numbers().at(kChannel), 3);
  device->past = {first.get()};
  const HangState reported = state();
  ASSERT_EQ(reported.open.size(), 1U);
  EXPECT_EQ(reported.open.front().call.number, 2);
  EXPECT_EQ(reported.open.front().members.ranks(), (std::vector{0, 2}));
  EXPECT_EQ(reported.last_numbers.at(kChannel), 2);
  EXPECT_GT(recorder->last(3).front().ended, 0);
  EXPECT_EQ(recorder->last(3).back().ended, 0);
}

TEST_F(DeviceCallsTest, MessagesHaveNumbersOfTheirOwnAndNameTheirPeer) {
  calls.add(device);
  call(*device);
  call(*device, "receive", 1);
  const auto records = recorder->last(2);
  EXPECT_EQ(records.back().number, 1);
  device->past = {nullptr};
  const auto other = std::make_shared<Device>("x", kChannel + 1);
  calls.add(other);
  call(*other, "receive", 1);
  EXPECT_EQ(state().open.back().waits_for, 2);
}

TEST_F(DeviceCallsTest, TheNextMemberIsAskedAboutACollectiveThatMakesNoProgress) {
  calls.add(device);
  call(*device);
  const auto now = DeviceCalls::Clock::now();
  EXPECT_TRUE(calls.probes(now).empty());
  EXPECT_TRUE(calls.probes(now + 100ms).empty());
  const auto asked = calls.probes(now + 2s);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked.front().first, 2);
  const WaitProbe& probe = asked.front().second;
  EXPECT_EQ(probe.asker().rank, 0);
  EXPECT_FALSE(probe.program_waits || probe.asker().call.needed);

  FlightRecorder other;  // rank 2's
  FlightRecorder::Call same{
      .collective = "all-reduce", .group = "x", .tag = "h.3", .number = 1, .bytes = 4096, .channel = kChannel};
  same.details.signature = signature_of(same, 0, 0);
  EXPECT_EQ(same.details.signature, probe.asker().call.signature);
  same.details.type = 6;
  same.details.signature = signature_of(same, 0, 0);
  EXPECT_NE(same.details.signature, probe.asker().call.signature);
  other.called(same);
  EXPECT_TRUE(other.has_called(probe.asker().call.key()));
  EXPECT_NE(probe.mismatch(2, other).find(
                "rank 2 has called all-reduce #1 of group 'x' (4.00 KiB = 4096 bytes, tag 'h.3') [Float]"),
            std::string::npos)
      << probe.mismatch(2, other);
}

TEST_F(DeviceCallsTest, AQueueThatIsGoneIsNotWatched) {
  auto gone = std::make_shared<Device>("y", kChannel + 1);
  calls.add(gone);
  call(*gone);
  gone.reset();
  EXPECT_FALSE(calls.late(DeviceCalls::Clock::now() + 100s, 0s, 60s));
  EXPECT_FALSE(state().waits);
}

TEST_F(DeviceCallsTest, AFailureEndsAllQueuesOnceAndIsThrownFromThenOn) {
  const auto other = std::make_shared<Device>("y", kChannel + 1);
  calls.add(device);
  calls.add(other);
  EXPECT_NO_THROW(calls.check());
  calls.fail("rank 3 is lost");
  calls.fail("and another one");  // a second abort would break the promises
  device->ended.get_future().wait();
  other->ended.get_future().wait();
  EXPECT_FALSE(*host_knows);
  try {
    calls.check();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.sentence(), "rank 3 is lost");
  }
  EXPECT_TRUE(*host_knows);
}

}  // namespace
}  // namespace axonn
