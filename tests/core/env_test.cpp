#include "axonn/core/env.hpp"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

TEST(EnvTable, DocumentsEveryVariableOnce) {
  std::set<std::string_view> names;
  for (const auto& variable : env::table()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.values.empty() || variable.fallback.empty() || variable.meaning.empty()) << variable.name;
  }
  EXPECT_TRUE(names.contains("AXONN_LOG"));
}

TEST(Env, ReadsValuesAndTakesEmptyForUnset) {
  unsetenv("MASTER_ADDR");
  EXPECT_EQ(env::get("MASTER_ADDR"), std::nullopt);
  setenv("MASTER_ADDR", "", 1);
  EXPECT_EQ(env::get("MASTER_ADDR"), std::nullopt);
  setenv("MASTER_ADDR", "node7", 1);
  EXPECT_EQ(env::get("MASTER_ADDR"), "node7");
}

TEST(Env, RefusesWhatIsNoWholeNumber) {
  unsetenv("MASTER_PORT");
  EXPECT_EQ(env::get_int("MASTER_PORT"), std::nullopt);
  setenv("MASTER_PORT", "29501", 1);
  EXPECT_EQ(env::get_int("MASTER_PORT"), 29501);
  for (const char* text : {"x", "29501x", "1.5", " 1", "99999999999"}) {
    setenv("MASTER_PORT", text, 1);
    EXPECT_THROW(env::get_int("MASTER_PORT"), UserError) << text;
  }
}

TEST(Env, KnowsOnlyTheTable) { EXPECT_THROW(env::get("AXONN_NO_SUCH_VARIABLE"), InternalError); }

}  // namespace
}  // namespace axonn
