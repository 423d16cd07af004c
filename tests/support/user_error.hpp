#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn::test {

// The sentence of the UserError that `action` throws. The test fails when it throws none.
template <typename Action>
std::string user_error(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.sentence();
  }
  ADD_FAILURE() << "no UserError";
  return "";
}

}  // namespace axonn::test

// EXPECT_USER_ERROR(load("missing"), "does not exist"): the statement throws a UserError, and its
// sentence contains every text that follows.
#define EXPECT_USER_ERROR(statement, ...)                                                              \
  do {                                                                                                 \
    const std::string sentence_ = ::axonn::test::user_error([&] { (void)(statement); });               \
    const std::vector<std::string> parts_ = {__VA_ARGS__};                                             \
    for (const auto& part_ : parts_) EXPECT_NE(sentence_.find(part_), std::string::npos) << sentence_; \
  } while (false)
