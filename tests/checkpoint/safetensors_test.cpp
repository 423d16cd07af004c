#include "axonn/checkpoint/safetensors.hpp"

#include <array>
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn::safetensors {
namespace {

using test::Scratch;

std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

const std::array<float, 6> kFloats = {0, 1, 2, 3, 4, 5};
const std::array<int64_t, 2> kLongs = {7, -8};
const std::array<uint8_t, 3> kBytes = {1, 2, 3};

void write_example(const std::filesystem::path& path) {
  const std::array<View, 4> views = {{{"bytes", c10::ScalarType::Byte, {3}, {std::as_bytes(std::span(kBytes))}},
                                      {"floats", c10::ScalarType::Float, {2, 3}, {std::as_bytes(std::span(kFloats))}},
                                      {"longs", c10::ScalarType::Long, {2}, {std::as_bytes(std::span(kLongs))}},
                                      {"none", c10::ScalarType::Half, {0, 4}, {}}}};
  write(path, views, {{"by", "a \"test\""}});
}

TEST(Safetensors, WhatIsWrittenReadsBack) {
  Scratch scratch;
  write_example(scratch / "t.safetensors");
  const File file(scratch / "t.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"by", "a \"test\""}}));
  ASSERT_EQ(file.entries().size(), 4u);
  const auto* floats = file.find("floats");
  ASSERT_NE(floats, nullptr);
  EXPECT_EQ(floats->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(floats->dtype, c10::ScalarType::Float);
  std::array<float, 6> back{};
  file.read(*floats, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, kFloats);
  std::array<int64_t, 2> longs{};
  file.read(*file.find("longs"), std::as_writable_bytes(std::span(longs)));
  EXPECT_EQ(longs, kLongs);
  EXPECT_EQ(file.find("none")->size_bytes(), 0);
  EXPECT_EQ(file.find("other"), nullptr);
}

TEST(Safetensors, TheBytesAreThoseOfThePublicFormat) {
  Scratch scratch;
  const View view{"a", c10::ScalarType::Short, {1, 2}, {std::as_bytes(std::span("\1\0\2\0", 4))}};
  write(scratch / "t", std::span(&view, 1));
  const std::string header = R"({"a":{"dtype":"I16","shape":[1,2],"data_offsets":[0,4]}}        )";
  const size_t padded = (std::string_view(header).find_last_not_of(' ') + 8) / 8 * 8;
  EXPECT_EQ(test::read(scratch / "t"), with_header(header.substr(0, padded), std::string("\1\0\2\0", 4)));
}

TEST(Safetensors, EveryTensorIsAlignedToItsElement) {
  Scratch scratch;
  write_example(scratch / "t");
  uint64_t length = 0;
  std::memcpy(&length, test::read(scratch / "t").data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  const File file(scratch / "t");
  for (const auto& entry : file.entries())
    EXPECT_EQ(entry.begin % static_cast<int64_t>(c10::elementSize(entry.dtype)), 0) << entry.name;
}

TEST(Safetensors, EveryTruncationIsAnErrorThatNamesTheFile) {
  Scratch scratch;
  write_example(scratch / "t");
  const std::string whole = test::read(scratch / "t");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = scratch.file("cut", whole.substr(0, size));
    EXPECT_USER_ERROR(File(path), path);
  }
  EXPECT_USER_ERROR(File(scratch.file("long", whole + "x")), "long: the tensors take");
  EXPECT_USER_ERROR(File(scratch / "missing"), "cannot open", "missing");
  EXPECT_USER_ERROR(File(scratch.path()), "too short");
}

TEST(Safetensors, NoBrokenByteCrashesTheReader) {
  Scratch scratch;
  write_example(scratch / "t");
  const std::string whole = test::read(scratch / "t");
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ (1 << bit));
      try {
        const File file(scratch.file("broken", broken));
        for (const auto& entry : file.entries()) {
          std::vector<std::byte> bytes(static_cast<size_t>(entry.size_bytes()));
          file.read(entry, bytes);
        }
      } catch (const UserError& error) {
        EXPECT_NE(error.sentence().find("broken"), std::string::npos);
      }
    }
  }
}

class HostileHeader : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(HostileHeader, IsAnError) {
  Scratch scratch;
  const auto& [header, why] = GetParam();
  EXPECT_USER_ERROR(File(scratch.file("hostile", with_header(header, std::string(8, 'x')))), "hostile", why);
}

constexpr auto kPlain = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

INSTANTIATE_TEST_SUITE_P(
    Safetensors, HostileHeader,
    testing::Values(
        std::pair("[]", "not a JSON object"), std::pair("", "not a JSON object"),
        std::pair("{\"a\":", "not a JSON object"), std::pair("{\"a\":1}", "lacks a dtype"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2]}})", "lacks a dtype"),
        std::pair(R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", "lacks a dtype"),
        std::pair(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "dtype that is not known here: F33"),
        std::pair(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "does not agree with its bytes"),
        std::pair(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "not a list of whole numbers"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "not a list of whole numbers"),
        std::pair(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "not a list of whole numbers"),
        std::pair(R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})",
                  "does not agree with its bytes"),
        std::pair(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}})",
                  "does not agree with its bytes"),
        std::pair(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
                  "not a list of whole numbers"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "not [begin, end]"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,16]}})", "not [begin, end]"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", "begins at byte 4"),
        std::pair(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "take 16 bytes, the file holds 8"),
        std::pair(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "take 4 bytes, the file holds 8"),
        std::pair(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                  "begins at byte 4"),
        std::pair(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                  R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                  "occurs twice"),
        std::pair(R"({"__metadata__":{"a":1}})", "something else than texts"),
        std::pair(R"({"__metadata__":[]})", "not an object")));

TEST(Safetensors, ThePlainHeaderOfTheHostileOnesIsFine) {
  Scratch scratch;
  EXPECT_EQ(File(scratch.file("t", with_header(kPlain, std::string(8, 'x')))).entries().size(), 1u);
}

TEST(Safetensors, AHeaderLongerThanTheFileIsNotAllocated) {
  Scratch scratch;
  for (const uint64_t length : {uint64_t{100}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string file = with_header("{}", "");
    std::memcpy(file.data(), &length, sizeof length);
    EXPECT_USER_ERROR(File(scratch.file("t", file)), "does not fit in the file");
  }
}

TEST(Safetensors, DeepNestingIsAnErrorNotACrash) {
  Scratch scratch;
  const std::string brackets = std::string(300000, '[') + std::string(300000, ']');
  for (const std::string& header : {std::string(1000000, '['), "{\"a\":" + brackets + "}",
                                    "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,0],\"shape\":" + brackets + "}}"})
    EXPECT_USER_ERROR(File(scratch.file("t", with_header(header, ""))), "nests deeper than 100 levels");
}

TEST(Safetensors, MisuseOfTheWriterIsRefused) {
  Scratch scratch;
  const View view{"a", c10::ScalarType::Float, {6}, {std::as_bytes(std::span(kFloats))}};
  const std::array<View, 2> twice = {view, view};
  EXPECT_USER_ERROR(write(scratch / "t", twice), "cannot be used twice");
  View wrong = view;
  wrong.shape = {5};
  EXPECT_USER_ERROR(write(scratch / "t", std::span(&wrong, 1)), "has 24 bytes");
  wrong.name = "__metadata__";
  EXPECT_USER_ERROR(write(scratch / "t", std::span(&wrong, 1)), "__metadata__");
  EXPECT_USER_ERROR(dtype_name(c10::ScalarType::ComplexFloat), "ComplexFloat");
  EXPECT_USER_ERROR(scalar_type("F4"), "F4");
  EXPECT_THROW(write(scratch / "no/such/directory", std::span(&view, 1)), BackendError);
}

}  // namespace
}  // namespace axonn::safetensors
