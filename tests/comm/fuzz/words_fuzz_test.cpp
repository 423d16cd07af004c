// The init file and the letters of ranks that hang: what is read is whole and right, or refused.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "axonn/core/error.hpp"
#include "support/fuzz.hpp"
#include "transport/startup/meeting_place.hpp"
#include "comm/watch/hang_letter.hpp"

namespace axonn {
namespace {

using fuzz::Random;

TEST(InitFileFuzz, GivesAPlaceToConnectToOrNothing) {
  const std::string text = text_of({{"host.example", "10.0.0.1", "fd00::1"}, 4321, "00ff"});
  size_t read = 0;
  fuzz::rounds(20'000, [&](Random& random) {
    const auto point = parse_meeting_point(fuzz::mutated(text, random));
    if (!point) return;
    ++read;
    EXPECT_GT(point->port, 0);
    EXPECT_LT(point->port, 65536);
    ASSERT_FALSE(point->hosts.empty());
    for (const std::string& host : point->hosts) EXPECT_FALSE(host.empty());
    const auto again = parse_meeting_point(text_of(*point));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->hosts, point->hosts);
    EXPECT_EQ(again->port, point->port);
    EXPECT_EQ(again->secret, point->secret);
  });
  EXPECT_GT(read, 500U);
}

constexpr int kRanks = 4;

CallRecord some_call(Random& random) {
  const char* const kinds[] = {"all-reduce", "send", "receive"};
  return {.collective = kinds[random.below(3)],
          .group = "x",
          .tag = "h.3",
          .number = static_cast<int64_t>(random.below(5)),
          .bytes = 4096,
          .step = 31,
          .called = static_cast<int64_t>(random.below(1'000'000)),
          .channel = static_cast<uint32_t>(random.below(3))};
}

HangState some_state(int rank, Random& random) {
  HangState state{.rank = rank, .host = "node", .step = 31, .waits = random.one_in(2), .open = {}, .last = {}};
  for (size_t i = random.below(3); i > 0; --i) {
    std::vector<int> members;
    for (int member = 0; member < kRanks; ++member)
      if (member == rank || random.one_in(2)) members.push_back(member);
    state.open.push_back({some_call(random), RankRuns(members), static_cast<int>(random.below(kRanks + 1)) - 1});
  }
  for (size_t i = random.below(5); i > 0; --i) state.last.push_back(some_call(random));
  for (uint32_t channel = 0; channel < random.below(4); ++channel) state.last_numbers[channel] = 3;
  return state;
}

std::string text_of(const HangLetter& letter) {
  const auto bytes = letter.bytes();
  return {bytes.begin(), bytes.end()};
}

HangLetter read(const std::string& text, int from) {
  return HangLetter::read({text.begin(), text.end()}, from, kRanks);
}

// Some letters are changed on the way: the report is made of the rest.
TEST(HangLetterFuzz, ReportIsMadeOfWhatCanBeRead) {
  size_t refused = 0;
  fuzz::rounds(2'000, [&](Random& random) {
    std::vector<HangState> states = {some_state(0, random)};
    for (int rank = 1; rank < kRanks; ++rank) {
      std::string text =
          text_of({.kind = HangLetter::Kind::answer, .states = {some_state(rank, random)}, .verdict = {}});
      if (random.one_in(2)) text = fuzz::mutated(text, random);
      try {
        HangLetter letter = read(text, rank);
        if (letter.kind == HangLetter::Kind::answer) std::ranges::move(letter.states, std::back_inserter(states));
      } catch (const BackendError&) {
        ++refused;
      }
    }
    const HangReport report = hang_report(states, kRanks, 60);
    EXPECT_NE(report.headline.find("made no progress for 60 s"), std::string::npos);
  });
  EXPECT_GT(refused, 500U);
}

// Numbers that its parser takes.
TEST(HangLetterFuzz, RanksThatDoNotExistAreRefused) {
  const std::string text = text_of({.kind = HangLetter::Kind::answer,
                                    .states = {{.rank = 1,
                                                .host = "node",
                                                .open = {{{.collective = "receive"}, RankRuns(std::vector{0, 1}), 2}},
                                                .last = {}}},
                                    .verdict = {}});
  EXPECT_NO_THROW(read(text, 1));
  EXPECT_THROW(read(text, 2), BackendError) << "of another rank";
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string changed = text;
    return changed.replace(changed.find(before), before.size(), after);
  };
  for (const char* runs : {"[[0,5,1]]", "[[-1,2,1]]", "[[0,2147483647,0]]", "[[1,2,-2147483648]]", "[[0,0,1]]",
                           "[[0,4,1],[0,4,1]]", "[[0,2,4]]"})
    EXPECT_THROW(read(with("[[0,2,1]]", runs), 1), BackendError) << runs;
  for (const char* rank : {"4", "-2"})
    EXPECT_THROW(read(with("\"waits_for\":2", std::string("\"waits_for\":") + rank), 1), BackendError) << rank;
}

// A parser that calls itself for each bracket would need a stack of any size.
TEST(HangLetterFuzz, DeepLettersAreRefused) {
  EXPECT_THROW(read(std::string(1'000'000, '['), 1), BackendError);
  const std::string deep = "{\"kind\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_THROW(read(deep, 1), BackendError);
}

}  // namespace
}  // namespace axonn
