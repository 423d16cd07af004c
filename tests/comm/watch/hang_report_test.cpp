#include "comm/watch/hang_letter.hpp"

#include <chrono>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "transport/local_transport.hpp"
#include "comm/watch/hang_enquiry.hpp"

namespace axonn {
namespace {

constexpr int64_t kSeconds = 60;

std::string text_of(std::initializer_list<int> ranks) { return RankRuns(std::vector(ranks)).text(); }

CallRecord call(const char* group, uint32_t channel, int64_t number, int64_t called = 0) {
  return {.collective = "all-reduce",
          .group = group,
          .tag = "h.3",
          .number = number,
          .bytes = 4096,
          .step = 31,
          .called = called,
          .channel = channel};
}

HangState::Open open(const CallRecord& record, std::vector<int> members, int waits_for = -1) {
  return {.call = record, .members = RankRuns(members), .waits_for = waits_for};
}

HangState state(int rank, bool waits, std::vector<HangState::Open> calls = {}) {
  HangState result{.rank = rank, .host = "node" + std::to_string(rank), .step = 31, .waits = waits, .open = calls};
  for (const auto& one : calls) {
    result.last.push_back(one.call);
    if (!one.call.point_to_point()) result.last_numbers[one.call.channel] = one.call.number;
  }
  return result;
}

TEST(RankRuns, TextIsShortForAnyNumberOfRanks) {
  EXPECT_EQ(text_of({3}), "rank 3");
  EXPECT_EQ(text_of({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(text_of({0, 1, 3}), "ranks 0, 1 and 3");
  EXPECT_EQ(text_of({0, 1, 2, 3, 4, 7}), "ranks 0 to 4 and 7");
  EXPECT_EQ(text_of({0, 8, 16, 24, 32}), "ranks 0, 8, ... 32");
  std::vector<int> squares;
  for (int i = 0; i < 40; ++i) squares.push_back(i * i);
  EXPECT_TRUE(RankRuns(squares).text().ends_with(" and others, 40 in all")) << RankRuns(squares).text();
  EXPECT_EQ(RankRuns(squares).ranks(), squares);
  const nlohmann::json json = RankRuns(squares);
  EXPECT_EQ(json.get<RankRuns>().ranks(), squares);
}

TEST(HangReport, NamesTheRankThatHasNotCalledAndWhatItDidLast) {
  std::vector<HangState> states;
  for (const int rank : {0, 1, 3}) states.push_back(state(rank, true, {open(call("data", 4, 17), {0, 1, 2, 3})}));
  states.push_back(state(2, false));
  CallRecord last = call("x", 8, 40, 1'000'000);
  last.ended = 1'002'500;
  states.back().last = {last};
  states.back().last_numbers = {{4, 16}, {8, 40}};
  const auto report = hang_report(states, 4, kSeconds);
  EXPECT_EQ(report.headline,
            "all-reduce #17 of group 'data' (4.00 KiB = 4096 bytes, tag 'h.3') made no progress for 60 s: rank 2 has "
            "not called it");
  EXPECT_NE(report.details.find("ranks 0, 1 and 3 are in it; rank 2 has not called it"), std::string::npos);
  EXPECT_NE(report.details.find("rank 2 (node2) is not waiting in axonn: it computes, or hangs in step 31"),
            std::string::npos)
      << report.details;
  EXPECT_NE(report.details.find("00:00:01.000 all-reduce #40 of group 'x' (4.00 KiB = 4096 bytes, tag 'h.3') in step "
                                "31: 2.5 ms"),
            std::string::npos)
      << report.details;
}

TEST(HangReport, NamesTheRanksThatDoNotAnswer) {
  const auto one = hang_report({state(0, true, {open(call("world", 4, 2), {0, 1, 2})})}, 3, kSeconds);
  EXPECT_TRUE(one.headline.ends_with("ranks 1 and 2 do not answer: they are stopped, or their hosts are gone"))
      << one.headline;
}

// Rank 3 hangs in x; all others wait for it, most of them in z for a rank that waits for it in x.
TEST(HangReport, ACallThatOthersFollowFromComesFirst) {
  std::vector<HangState> states = {state(0, true, {open(call("z", 8, 5, 1), {0, 1})}),
                                   state(1, true, {open(call("x", 4, 9, 2), {1, 3})}),
                                   state(2, true, {open(call("z", 8, 5, 1), {2, 3})}), state(3, false)};
  states[1].last_numbers[8] = 4;
  const auto report = hang_report(states, 4, kSeconds);
  EXPECT_TRUE(report.headline.find("group 'z'") != std::string::npos ||
              report.headline.find("group 'x'") != std::string::npos);
  EXPECT_TRUE(report.headline.ends_with(": rank 3 has not called it")) << report.headline;
  EXPECT_NE(report.details.find("rank 0 is in it; rank 1 has not called it"), std::string::npos) << report.details;
}

// A gradient's reduction is under way on the rank that computes, and waits for the others.
TEST(HangReport, ARankThatComputesIsNotExcusedByWhatItHasUnderWay) {
  std::vector<HangState> states = {state(0, true, {open(call("x", 4, 9, 5), {0, 1})}),
                                   state(1, false, {open(call("data", 8, 3, 1), {0, 1})})};
  const auto report = hang_report(states, 2, kSeconds);
  EXPECT_NE(report.headline.find("group 'x'"), std::string::npos) << report.headline;
  EXPECT_TRUE(report.headline.ends_with(": rank 1 has not called it")) << report.headline;
}

// Rank 1's device hangs in a kernel before a call that rank 0's device has left behind.
TEST(HangReport, ADeviceThatHasNotComeToACallIsNamed) {
  const uint32_t channel = kDeviceChannel | 4;
  const auto report = hang_report(
      {state(0, true, {open(call("x", channel, 93), {0, 1})}), state(1, true, {open(call("x", channel, 85), {0, 1})})},
      2, kSeconds);
  EXPECT_NE(report.headline.find("all-reduce #93"), std::string::npos) << report.headline;
  EXPECT_TRUE(report.headline.ends_with(": rank 1's device has not come to it")) << report.headline;
}

TEST(HangReport, RanksThatWaitForEachOtherAreSaidSo) {
  const auto report =
      hang_report({state(0, true, {open(call("x", 4, 9), {0, 1})}), state(1, true, {open(call("data", 8, 3), {0, 1})})},
                  2, kSeconds);
  EXPECT_NE(report.headline.find("the ranks wait for each other, in calls of different orders: rank 0 in all-reduce #9 "
                                 "of group 'x'"),
            std::string::npos)
      << report.headline;
  EXPECT_NE(report.headline.find("rank 1 in all-reduce #3 of group 'data'"), std::string::npos) << report.headline;
}

TEST(HangReport, AReceiveNamesItsSender) {
  CallRecord receive = call("x", 4, 1);
  receive.collective = "receive";
  const auto report = hang_report({state(0, true, {open(receive, {0, 1}, 1)}), state(1, false)}, 2, kSeconds);
  EXPECT_TRUE(report.headline.ends_with(": it waits for rank 1")) << report.headline;
}

TEST(HangReport, ACallThatAllHaveMadeIsSaidSo) {
  const auto report = hang_report(
      {state(0, true, {open(call("x", 4, 9), {0, 1})}), state(1, true, {open(call("x", 4, 9), {0, 1})})}, 2, kSeconds);
  EXPECT_TRUE(report.headline.ends_with("although all its ranks have called it")) << report.headline;
}

TEST(HangReport, ACallThatEndedMeanwhileSaysHowToWaitLonger) {
  const auto report = hang_report({state(0, true), state(1, true)}, 2, kSeconds);
  EXPECT_NE(report.headline.find("AXONN_TIMEOUT_SECONDS"), std::string::npos);
}

TEST(HangLetter, IsTheSameAfterTheWire) {
  HangState before = state(3, true, {open(call("x", 4, 9, 123), {1, 3}, 1)});
  before.open[0].call.tag = "cut \xc3";  // within a character
  const auto letter = [&] { return HangLetter{.kind = HangLetter::Kind::answer, .states = {before}, .verdict = {}}; };
  const HangLetter after = HangLetter::read(letter().bytes(), 3, 4);
  EXPECT_EQ(after.states.at(0).open[0].call.tag, "cut \xef\xbf\xbd");
  before = after.states[0];
  EXPECT_EQ(HangLetter::read(letter().bytes(), 3, 4).bytes(), letter().bytes());
  EXPECT_EQ(after.states.at(0).open[0].members.ranks(), (std::vector{1, 3}));
  const HangLetter verdict{.kind = HangLetter::Kind::verdict, .states = {}, .verdict = "it hangs"};
  EXPECT_EQ(HangLetter::read(verdict.bytes(), 0, 4).verdict, "it hangs");
}

// Memory or a network may change one; the enquiry goes on with the others.
TEST(HangEnquiry, LetterThatCannotBeReadIsLeftOut) {
  const auto hub = make_local_hub(2);
  const auto zero = make_local_transport(hub, 0), one = make_local_transport(hub, 1);
  const FlightRecorder recorder;
  HangEnquiry enquiry(*zero, recorder, [] { return state(0, false); }, std::chrono::seconds(60));
  const std::string garbage = "{\"kind\":\"waits\"";
  const auto waits = HangLetter{.kind = HangLetter::Kind::waits, .states = {}, .verdict = {}}.bytes();
  one->send(0, Transport::kLetters, garbage.data(), garbage.size());
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(enquiry.poll());
  EXPECT_FALSE(enquiry.under_way());
  one->send(0, Transport::kLetters, waits.data(), waits.size());
  EXPECT_NO_THROW(enquiry.poll());
  EXPECT_TRUE(enquiry.under_way());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("a letter of rank 1 cannot be read: "), std::string::npos) << log;
}

}  // namespace
}  // namespace axonn
