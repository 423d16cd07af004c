#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/coconet/oracle/oracle.hpp"

namespace axonn::coconet::test {

// Calls `check` with 1 to 4 ranks and several cuts.
template <typename Check>
void for_each_setting(const OracleOptions& base, Check check) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const Cut& cut : {Cut::contiguous(), Cut::cyclic(1), Cut::cyclic(2, 1), Cut::cyclic(3, 5)}) {
      OracleOptions options = base;
      options.ranks = ranks;
      options.cut = cut;
      SCOPED_TRACE("ranks " + std::to_string(ranks) + ", block " + std::to_string(cut.block) + ", offset " +
                   std::to_string(cut.offset));
      check(options);
    }
}

// The program with these sections, without one rule if one is named.
inline Program with_sections(const Program& program, std::vector<Section> sections, std::string_view without = {}) {
  ProgramParts parts = program.parts();
  parts.sections = std::move(sections);
  return Program(parts, {.without = without});
}

inline Section fuse(std::string name, std::vector<std::string> members) {
  return {SectionKind::fuse, std::move(name), std::move(members)};
}
inline Section overlapped(std::string name, std::vector<std::string> members) {
  return {SectionKind::overlap, std::move(name), std::move(members)};
}

// The only part of an output: it must be there and without a fault.
inline std::vector<double> whole(const OracleResult& result, const std::string& output) {
  const OracleValue& value = result.outputs.at(output);
  EXPECT_EQ(value.fault, "") << output;
  EXPECT_EQ(value.parts.size(), 1) << output;
  return value.parts[0];
}

inline void expect_near(const std::vector<double>& numbers, const std::vector<double>& expected) {
  ASSERT_EQ(numbers.size(), expected.size());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], expected[i], 1e-13) << "element " << i;
}

}  // namespace axonn::coconet::test
