#include "axonn/core/text.hpp"

#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/median.hpp"

namespace axonn {
namespace {

TEST(DidYouMean, NamesTheNearestOrNothing) {
  constexpr std::array<std::string_view, 3> kKeys = {"layers", "hidden", "heads"};
  EXPECT_EQ(did_you_mean("hiden", kKeys), "; did you mean 'hidden'?");
  EXPECT_EQ(did_you_mean("head", kKeys), "; did you mean 'heads'?");
  EXPECT_EQ(did_you_mean("hidden", kKeys), "; did you mean 'hidden'?");
  EXPECT_EQ(did_you_mean("vocabulary", kKeys), "");
  constexpr std::array<std::string_view, 3> kShort = {"g", "lr", "w1"};
  for (const std::string_view word : {"zz", "z", "xy"}) EXPECT_EQ(did_you_mean(word, kShort), "") << word;
  EXPECT_EQ(did_you_mean("w2", kShort), "; did you mean 'w1'?");
  constexpr std::array<std::string_view, 2> kSwapped = {"tied", "grid"};
  EXPECT_EQ(did_you_mean("gird", kSwapped), "; did you mean 'grid'?");  // one swap, but two replacements
  EXPECT_EQ(did_you_mean("hiden", std::span<const std::string>{}), "");
  const std::array<std::string, 1> strings = {"sequence"};
  EXPECT_EQ(did_you_mean("sequnce", strings), "; did you mean 'sequence'?");
}

enum class Letter { a, b };
std::string_view to_string(Letter letter) { return letter == Letter::a ? "A" : "B"; }

TEST(Join, SeparatesTextNumbersAndWhatHasToString) {
  EXPECT_EQ(join(std::vector<std::string>{"x", "", "z"}, ", "), "x, , z");
  EXPECT_EQ(join(std::array<std::string_view, 1>{"x"}, ", "), "x");
  EXPECT_EQ(join(std::array<int64_t, 3>{4, -1, 16}, "x"), "4x-1x16");
  EXPECT_EQ(join(std::array{Letter::b, Letter::a}, "+"), "B+A");
  EXPECT_EQ(join(std::array{2, 3}, " ", [](int number) { return std::string(static_cast<size_t>(number), '.'); }),
            ".. ...");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
}

TEST(Median, IsTheUpperOneOfTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
  EXPECT_EQ(median({7}), 7);
}

TEST(WithUnit, CountsInPowersOfThousand) {
  EXPECT_EQ(with_unit(0), "0");
  EXPECT_EQ(with_unit(999), "999");
  EXPECT_EQ(with_unit(1000), "1.0 k");
  EXPECT_EQ(with_unit(10737418), "10.7 M");
  EXPECT_EQ(with_unit(124439808), "124 M");
  EXPECT_EQ(with_unit(80e9), "80.0 G");
  EXPECT_EQ(with_unit(999.9e6), "1.0 G");
  EXPECT_EQ(with_unit(2.5), "2.5");
}

TEST(BytesText, CountsInPowersOf1024) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(1610612736), "1.50 GiB");
}

TEST(DurationText, IsAClock) {
  EXPECT_EQ(duration_text(112.4), "1:52");
  EXPECT_EQ(duration_text(3700), "1:01:40");
  EXPECT_EQ(duration_text(9), "0:09");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(-3), "0:00");
}

TEST(ClockText, HasADayOnlyIfItIsAnotherOne) {
  setenv("TZ", "UTC", 1);
  tzset();
  constexpr std::time_t kNow = 1'796'220'300;  // 2026-12-02 14:05
  EXPECT_EQ(clock_text(kNow, kNow), "14:05");
  EXPECT_EQ(clock_text(kNow + 9 * 3600, kNow), "23:05");
  EXPECT_EQ(clock_text(kNow + 10 * 3600, kNow), "03 Dec 00:05");
  EXPECT_EQ(clock_text(kNow + 365 * 86400, kNow), "02 Dec 14:05");
}

TEST(ParseCount, TakesPowersOf1024) {
  EXPECT_EQ(parse_count("4096", "sequence", Suffixes::binary), 4096);
  EXPECT_EQ(parse_count("64k", "sequence", Suffixes::binary), 65536);
  EXPECT_EQ(parse_count("4M", "sequence", Suffixes::binary), 4194304);
  EXPECT_EQ(parse_count("2G", "sequence", Suffixes::binary), 2147483648);
}

TEST(ParseCount, RefusesAnythingElseAndNamesTheValue) {
  for (const char* text : {"", "k", "4kk", "4K", "-1", "1.5k", "9999999999G", "99999999999999999999"}) {
    try {
      parse_count(text, "--batch", Suffixes::binary);
      ADD_FAILURE() << "nothing was thrown for " << text;
    } catch (const UserError& error) {
      EXPECT_EQ(error.sentence().find("--batch"), 0u) << error.sentence();
    }
  }
}

}  // namespace
}  // namespace axonn
