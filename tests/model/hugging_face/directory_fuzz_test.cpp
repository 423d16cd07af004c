// A directory with a damaged file is opened, and read into a network of its shape, or refused by a
// UserError. AXONN_TEST_FUZZ_SECONDS and ASan's max_allocation_size_mb make more of it.
#include <cstring>

#include <gtest/gtest.h>

#include "axonn/model/decoder/model.hpp"
#include "axonn/model/hugging_face/model_directory.hpp"
#include "layers/layer_fixture.hpp"
#include "model/hugging_face/oracle.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using fuzz::Random;

// A file of tensors with another header, or cut.
std::string damaged(const std::string& whole, Random& random) {
  uint64_t size = 0;
  std::memcpy(&size, whole.data(), sizeof size);
  if (random.one_in(4)) return whole.substr(0, random.below(whole.size()));
  std::string header = fuzz::changed(whole.substr(sizeof size, size), random);
  const std::string data = whole.substr(sizeof size + size);
  size = random.one_in(8) ? size : header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

void open_and_load(const fs::path& path) {
  const ModelDirectory directory(path);
  if (parameters_of(directory.config().shape) > 1'000'000) return;
  Context context = test::context_on({});
  Decoder model(context, {.shape = directory.config().shape});
  directory.load(context, context.materialize(model, 1));
}

TEST(DirectoryFuzz, IsLoadedOrRefused) {
  size_t good = 0, bad = 0;
  for (const char* name : {"llama_bf16_shards", "gpt2"}) {
    if (!fs::exists(test::oracle_folder(name))) GTEST_SKIP() << "needs " << test::oracle_folder(name);
    const test::Scratch scratch;
    std::vector<std::string> files;
    for (const auto& file : fs::directory_iterator(test::oracle_folder(name))) {
      const std::string one = file.path().filename();
      if (one == "expected.safetensors") continue;
      scratch.file(one, test::read(file.path()));
      if (one == "config.json" || one.find(".safetensors") != std::string::npos) files.push_back(one);
    }
    fuzz::rounds(150, [&](Random& random) {
      const std::string& one = files[random.below(files.size())];
      const std::string whole = test::read(scratch / one);
      scratch.file(one, one.ends_with(".json") ? fuzz::changed(whole, random) : damaged(whole, random));
      ++(fuzz::read([&] { open_and_load(scratch.path()); }) ? good : bad);
      scratch.file(one, whole);
    });
  }
  EXPECT_GT(good, 0u);
  EXPECT_GT(bad, 0u);
}

}  // namespace
}  // namespace axonn
