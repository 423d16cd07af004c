#include "axonn/overlap/step/overlap_policy.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OverlapSwitches, AreNamed) {
  const auto again = [](const char* list) { return to_string(parse_switches<OverlapSwitches>(list)); };
  EXPECT_EQ(again("all"), "all");
  EXPECT_EQ(again("all-reduce,reduce-scatter,all-gather,cache,buckets"), "all");
  EXPECT_EQ(again("none"), "none");
  EXPECT_EQ(again("cache, all-reduce"), "all-reduce,cache");
  for (const auto& [name, on] : Switches<OverlapSwitches>::kAll)
    EXPECT_TRUE(parse_switches<OverlapSwitches>(name).*on) << name;
  EXPECT_EQ(OverlapPolicy::all().switches, parse_switches<OverlapSwitches>("all"));
  EXPECT_EQ(OverlapPolicy::none().switches, parse_switches<OverlapSwitches>("none"));
}

TEST(OverlapSwitches, UnknownOnesAreRefused) {
  EXPECT_NE(refusal([] {
              parse_switches<OverlapSwitches>("all-gathr");
            }).find("unknown overlap 'all-gathr'; did you mean 'all-gather'?"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_switches<OverlapSwitches>("cache,"); }).find("unknown overlap ''"), std::string::npos);
  EXPECT_NE(refusal([] { parse_switches<OverlapSwitches>("none,cache"); }).find("overlap 'none' stands by itself"),
            std::string::npos);
}

TEST(CacheBudget, IsInBytesOrLayers) {
  EXPECT_EQ(parse_cache_budget("64M"), CacheBudget{.bytes = 64 << 20});
  EXPECT_EQ(parse_cache_budget("8 layers").layers, 8);
  EXPECT_GT(parse_cache_budget("8 layers").bytes, int64_t{1} << 50);
  EXPECT_EQ(parse_cache_budget("0").bytes, 0);
  for (const char* text : {"64M", "8 layers", "0", "100"}) EXPECT_EQ(to_string(parse_cache_budget(text)), text);
  for (const char* wrong : {"", "many", "-1", "x layers", "-2 layers", "8 layer", "1.5M"})
    EXPECT_NE(refusal([&] { parse_cache_budget(wrong); }), "accepted") << wrong;
}

}  // namespace
}  // namespace axonn
