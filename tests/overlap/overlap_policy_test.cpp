#include "axonn/overlap/step/overlap_policy.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

OverlapPolicy with_switches(const char* list) {
  OverlapPolicy policy;
  policy.set_switches(list);
  return policy;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OverlapPolicy, SwitchesAreNamed) {
  EXPECT_EQ(with_switches("all").switches(), "all-reduce,reduce-scatter,all-gather,cache,buckets");
  EXPECT_EQ(with_switches("none").switches(), "none");
  EXPECT_EQ(with_switches("cache, all-reduce").switches(), "all-reduce,cache");
  EXPECT_EQ(OverlapPolicy::all().switches(), with_switches("all").switches());
  EXPECT_EQ(OverlapPolicy::none().switches(), "none");
}

TEST(OverlapPolicy, UnknownSwitchesAreRefused) {
  EXPECT_NE(refusal([] { with_switches("all-gathr"); }).find("unknown overlap 'all-gathr'; did you mean 'all-gather'?"), std::string::npos);
  EXPECT_NE(refusal([] { with_switches("cache,"); }).find("unknown overlap ''"), std::string::npos);
  EXPECT_NE(refusal([] { with_switches("none,cache"); }).find("overlap 'none' stands alone"), std::string::npos);
}

TEST(OverlapPolicy, TheCacheIsInBytesOrLayers) {
  OverlapPolicy policy;
  policy.set_cache_budget("64M");
  EXPECT_EQ(policy.cache_bytes, 64 << 20);
  EXPECT_GT(policy.cache_layers, 1 << 20);
  policy.set_cache_budget("8 layers");
  EXPECT_EQ(policy.cache_layers, 8);
  EXPECT_GT(policy.cache_bytes, int64_t{1} << 50);
  policy.set_cache_budget("0");
  EXPECT_EQ(policy.cache_bytes, 0);
  for (const char* wrong : {"", "many", "-1", "x layers", "-2 layers", "8 layer", "1.5M"})
    EXPECT_NE(refusal([&] { policy.set_cache_budget(wrong); }), "accepted") << wrong;
}

}  // namespace
}  // namespace axonn
