// The text of a manifest becomes a tree, but for its parts.
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "checkpoint/manifest/manifest_tree.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

const std::string kPart = R"([0,1,2,3,4,"y+z",10,20,30,40,"00000000000000ff",1])";

ManifestParts parts_of(const std::string& list) {
  ManifestParts parts;
  const Json tree = manifest_tree(R"({"format":4,"parts":)" + list + R"(,"step":7})", parts);
  EXPECT_EQ(tree.at("step").get<int>(), 7) << list;
  return parts;
}

std::string fault_of(const std::string& list) {
  const ManifestParts parts = parts_of(list);
  if (!parts.fault) return "";
  return test::user_error([&] { std::rethrow_exception(parts.fault); });
}

// `kPart` with another value at a place.
std::string part_with(size_t place, const std::string& value) {
  const Json part = Json::parse(kPart);
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) text += (i == 0 ? "[[" : ",") + (i == place ? value : part.at(i).dump());
  return text + "]]";
}

TEST(ManifestTree, HoldsNoParts) {
  ManifestParts parts;
  const Json tree = manifest_tree("{\"parts\": [" + kPart + ",\n" + kPart + "], \"format\": 4}", parts);
  EXPECT_EQ(tree.dump(), R"({"parts":[],"format":4})");
  EXPECT_FALSE(parts.fault);
  ASSERT_EQ(parts.list.size(), 2U);
  for (const Manifest::Part& part : parts.list) {
    EXPECT_EQ(part.file, 0U);
    EXPECT_EQ(part.at, (Coordinate{1, 2, 3, 4}));
    EXPECT_EQ(part.replicated, (AxisSet{Axis::y, Axis::z}));
    EXPECT_EQ(part.header, (Range{10, 20}));
    EXPECT_EQ(part.data, (Range{30, 40}));
    EXPECT_EQ(part.xxh64, 255U);
    EXPECT_EQ(part.places, 1U);
  }
}

TEST(ManifestTree, IsThatOfTheLibrary) {
  for (const char* text :
       {R"({"a": [1, -2, 3.5, null, true, "x\u00e9\n", [], {}, [[{"b": [{}]}]]], "c": {"d": 18446744073709551615}})",
        R"({"a": 1, "b": {"a": 2}, "a": [3]})", R"([{"parts": [[1]]}, 2])", R"("text")", "7",
        R"({"configuration": {"parts": [[1, 2], {"parts": 3}]}, "parts": 4})", R"({"parts": {"x": [1]}})"}) {
    ManifestParts parts;
    EXPECT_EQ(manifest_tree(text, parts).dump(), Json::parse(text).dump()) << text;
    EXPECT_TRUE(parts.list.empty() && !parts.fault) << text;
  }
}

TEST(ManifestTree, PartsThatCannotBeReadAreFaults) {
  EXPECT_EQ(fault_of("[" + kPart + "]"), "");
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"[7]", "a part of 1 members"},
      {"[[]]", "a part of 0 members"},
      {"[" + kPart + ",[1,2]]", "a part of 2 members"},
      {part_with(10, R"("00000000000000ff",1)"), "a part of 13 members"},
      {part_with(0, "\"0\""), "value 0 of a part is of a wrong type"},
      {part_with(5, "5"), "value 5 of a part is of a wrong type"},
      {part_with(6, "1.5"), "value 6 of a part is of a wrong type"},
      {part_with(7, "[7,[8]]"), "value 7 of a part is of a wrong type"},
      {part_with(8, R"({"a":1})"), "value 8 of a part is of a wrong type"},
      {part_with(9, "18446744073709551615"), "value 9 of a part is of a wrong type"},
      {part_with(10, "null"), "value 10 of a part is of a wrong type"},
      {R"([{"a":0,"b":1,"c":2,"d":3,"e":4,"f":"z","g":6,"h":7,"i":8,"j":9,"k":"ff"}])", "value 0 of a part"},
      {part_with(5, "\"z+y\""), "'z+y' is no set of axes"},
      {part_with(10, "\"xyz\""), "'xyz' is no checksum"}};
  for (const auto& [list, words] : faults) EXPECT_NE(fault_of(list).find(words), std::string::npos) << list;
}

TEST(ManifestTree, CoordinatesBeyondAllGridsAreOnNone) {
  const ManifestParts parts = parts_of(part_with(3, "4294967296"));
  ASSERT_EQ(parts.list.size(), 1U);
  EXPECT_EQ(parts.list[0].at.z, -1);
}

TEST(ManifestTree, TextsThatAreNoJsonAreRefused) {
  ManifestParts parts;
  EXPECT_USER_ERROR(manifest_tree("{\"parts\": [" + kPart, parts), "parse error");
  EXPECT_USER_ERROR(manifest_tree("", parts), "parse error");
  EXPECT_USER_ERROR(manifest_tree(std::string(101, '['), parts), "nests deeper than 100 levels");
  EXPECT_USER_ERROR(manifest_tree("{\"parts\": " + std::string(200, '['), parts), "nests deeper than 100 levels");
}

}  // namespace
}  // namespace axonn
