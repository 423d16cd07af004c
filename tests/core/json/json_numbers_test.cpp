#include "axonn/core/json/json_numbers.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace axonn {
namespace {

TEST(JsonNumbers, HaveTheKeysOfTheirObjectsInOrder) {
  EXPECT_EQ(json_numbers(R"({"b":1,"a":{"y":{"z":2.5},"x":-3},"c":"4","d":true,"e":[5,{"f":6}]})"),
            (NamedNumbers{{"b", 1}, {"a.y.z", 2.5}, {"a.x", -3}}));
  EXPECT_EQ(json_numbers("{}"), NamedNumbers());
}

TEST(JsonNumbers, NullIsNotANumber) {
  const auto numbers = json_numbers(R"({"loss":null})");
  ASSERT_TRUE(numbers && numbers->size() == 1);
  EXPECT_TRUE(std::isnan(numbers->front().second));
}

TEST(JsonNumbers, RefuseWhatIsNoObject) {
  for (const char* text : {"", "[1]", "1", R"({"a":1)", R"({"a":1}{)", "null", "\xff"})
    EXPECT_FALSE(json_numbers(text)) << text;
  std::string deep(1 << 20, '[');
  EXPECT_FALSE(json_numbers("{\"a\":" + deep));
}

}  // namespace
}  // namespace axonn
