// Files of a checkpoint that are damaged or written by somebody else: they are read, or refused by
// a UserError; the sanitizers see the rest.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "core/files.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using fuzz::changed, fuzz::Random, fuzz::read;

TEST(CheckpointFuzz, IndexesOfTensorsAreReadOrRefused) {
  const test::Scratch scratch;
  const std::vector<float> floats(6, 1);
  for (const char* name : {"a", "b"})
    safetensors::write(
        scratch / (std::string(name) + ".safetensors"),
        std::vector<safetensors::View>{{name, c10::ScalarType::Float, {2, 3}, {std::as_bytes(std::span(floats))}}});
  const std::string whole =
      R"({"metadata": {"total_size": 48}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})";
  size_t good = 0, bad = 0;
  fuzz::rounds(2000, [&](Random& random) {
    scratch.file("model.safetensors.index.json", changed(whole, random));
    ++(read([&] { safetensors::StateDictReader{scratch / "model.safetensors.index.json"}; }) ? good : bad);
  });
  EXPECT_GT(good, 0u);
  EXPECT_GT(bad, 0u);
}

TEST(CheckpointFuzz, FilesOfTensorsAreReadOrRefused) {
  const test::Scratch scratch;
  const std::vector<float> floats(6, 1);
  const std::vector<safetensors::View> views = {
      {"a", c10::ScalarType::Float, {2, 3}, {std::as_bytes(std::span(floats))}},
      {"none", c10::ScalarType::Half, {0, 4}, {}},
      {"one", c10::ScalarType::Float, {}, {std::as_bytes(std::span(floats).first(1))}}};
  safetensors::write(scratch / "t", views, {{"by", "a test"}});
  const std::string whole = test::read(scratch / "t");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  const std::string header = whole.substr(sizeof header_bytes, header_bytes),
                    data = whole.substr(sizeof header_bytes + header_bytes);
  size_t good = 0, bad = 0;
  fuzz::rounds(2000, [&](Random& random) {
    std::string text = changed(header, random);
    uint64_t length = text.size();
    if (random.one_in(8)) length = random.one_in(2) ? ~uint64_t{0} >> random.below(64) : random.below(300);
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    scratch.file("t", random.one_in(4) ? fuzz::mutated(whole, random) : bytes + text + data);
    ++(read([&] {
      const safetensors::File file(scratch / "t");
      for (const auto& entry : file.entries()) {
        std::vector<std::byte> into(static_cast<size_t>(entry.size_bytes()));
        file.read(entry, into);
      }
    })
           ? good
           : bad);
  });
  EXPECT_GT(good, 50U);
  EXPECT_GT(bad, 200U);
}

// With its checksum right again, so that what is in it is read.
std::string with_right_checksum(const std::string& manifest) {
  constexpr std::string_view kKey = ",\n\"manifest_xxh64\": \"";
  const size_t end = manifest.rfind(kKey);
  if (end == std::string::npos) return "";
  const std::string text = manifest.substr(0, end);
  return text + std::string(kKey) + disk::hex(disk::xxh64_of(text)) + "\"\n}\n";
}

// Changes the manifest of a checkpoint at random.
void fuzz_manifest(const fs::path& step) {
  const std::string whole = test::read(step / Manifest::kFileName);
  ASSERT_EQ(with_right_checksum(whole), whole);
  size_t good = 0, bad = 0;
  fuzz::rounds(300, [&](Random& random) {
    std::string text = changed(whole, random);
    if (!random.one_in(8)) text = with_right_checksum(text);  // empty if it lost its place
    std::ofstream(step / Manifest::kFileName, std::ios::binary) << text;
    ++(read([&] {
      const CheckpointReader reader(step);
      const auto& tensors = reader.tensors();
      for (size_t i = 0; i < 3 && !tensors.empty(); ++i) reader.read_whole(tensors[random.below(tensors.size())]);
    })
           ? good
           : bad);
  });
  EXPECT_GT(good, 20U);
  EXPECT_GT(bad, 50U);
}

TEST(CheckpointFuzz, ManifestsOfFormat1AreReadOrRefused) {
  const test::Scratch scratch;
  const fs::path step = scratch / "step-000003";
  fs::copy(fs::path(STORED) / "0.1/gpt-run/step-000003", step, fs::copy_options::recursive);
  fuzz_manifest(step);
}

TEST(CheckpointFuzz, ManifestsAreReadOrRefused) {
  const test::Scratch scratch;
  const std::vector<test::Tensor> all = {
      {"weights/w", {{Dim::split(21, Axis::x), Dim::split(13, Axis::y)}, true}},
      {"adam.m/w", {{Dim::split(21, Axis::x), Dim::split(13, Axis::y)}, true}, at::kFloat, Axis::data, 8, 1},
      {"weights/b", {{Dim::split(70, Axis::x)}, false}, at::kBFloat16}};
  for (const int ranks_of_file : {0, 3}) {
    test::save(scratch.path(), Grid(parse_grid_shape("2x1x2x2")), test::state_at(3), all,
               {.ranks_of_file = ranks_of_file});
    fuzz_manifest(scratch / "step-000003");
    fs::remove_all(scratch / "step-000003");
  }
}

TEST(CheckpointFuzz, ManifestsBeyondAllMeasureAreRefused) {
  const test::Scratch scratch;
  const std::string whole = test::read(fs::path(STORED) / "0.1/gpt-run/step-000003" / Manifest::kFileName);
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& words) {
    std::string text = whole;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    EXPECT_USER_ERROR(Manifest::from_json(with_right_checksum(text), "manifest.json"), "manifest.json is broken",
                      words);
  };
  const std::string sizes = R"([[{"size":7,)", most = "9223372036854775807";
  refuse(sizes, R"([[{"size":)" + most + ",", "has more than 281474976710656 numbers");
  refuse(sizes, R"([[{"size":)" + most + R"(,"axis":null,"padded":false},{"size":7,)", "has more than");
  refuse(sizes, R"([[{"size":100000000000,"axis":null,"padded":false}],[{"size":100000,)", "has more than");
  refuse("\"samples\": 12", "\"samples\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']'),
         "nests deeper than 100 levels");
}

}  // namespace
}  // namespace axonn
