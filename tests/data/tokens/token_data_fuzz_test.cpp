// Words of --data, and damaged shards, summaries and texts that they name, become samples, or are
// refused by a UserError; the sanitizers see a read beyond a file.
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "axonn/core/log.hpp"
#include "axonn/data/tokens/token_windows.hpp"
#include "data/shards/shard_files.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using fuzz::Random;
using test::Tokens;
using Words = std::vector<std::string>;

const Tokens kIds = {1, 2, 3, 255, 7, 8, 9, 10, 11, 12, 13, 14};

const std::vector<std::pair<std::string, std::string>>& files() {
  static const test::MegatronFiles megatron = test::megatron_files({kIds, {5, 6}}, {0, 1}, 2);
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"m.bin", megatron.tokens},
      {"m.idx", megatron.index},
      {"m.json", R"({"tokens": 14, "vocabulary": 256, "tokenizer": "bytes", "tokenizer_xxh64": null})"},
      {"l.bin", test::llmc_file(kIds, 2)},
      {"n.bin", test::numbers(kIds, 2)},
      {"t.txt", "some text\n"}};
  return all;
}

Words some_words(const test::Scratch& scratch, Random& random) {
  const std::array<std::string, 6> paths = {scratch / "m",     scratch / "m.idx",
                                            scratch / "m.bin", scratch / "l.bin",
                                            scratch / "t.txt", "nanogpt:" + (scratch / "n.bin").string()};
  static const Words kWeights = {"0.25", "0.25", "0.25", "1", "999999999", "0.000000001", "0", "-1", "1e9", "nan"};
  const bool weighted = random.one_in(3);
  Words words;
  for (size_t count = random.from(1, 3); count > 0; --count) {
    if (weighted) words.push_back(kWeights[random.below(kWeights.size())]);
    words.push_back(paths[random.below(paths.size())]);
  }
  return words;
}

void use(const Words& words, Random& random) {
  constexpr int64_t kSequence = 4;
  const TokenData data = TokenData::load({.data = named_data(words, "--data"),
                                          .validation_fraction = random.one_in(2) ? 0 : 0.4,
                                          .tokenizer = Tokenizer::bytes()});
  TokenWindows windows(data, kSequence, random.below(100));
  Tokens ids(kSequence), targets(kSequence);
  const auto check = [&] {
    for (const int64_t id : ids) ASSERT_LT(id, data.vocabulary());
  };
  for (int64_t number = 0; number < 20; ++number) {
    windows.read(number, ids, targets);
    check();
  }
  for (int64_t number = 0; number < windows.validation_windows(); ++number) {
    windows.read_validation(number, ids, targets);
    check();
  }
}

TEST(TokenDataFuzz, DataBecomeSamplesOrAreRefused) {
  log::configure({.level = log::Level::off});
  const test::Scratch scratch;
  size_t good = 0, bad = 0;
  fuzz::rounds(3000, [&](Random& random) {
    const size_t changed = random.below(files().size() + 1);
    for (size_t file = 0; file < files().size(); ++file) {
      const auto& [name, content] = files()[file];
      scratch.file(name, file == changed ? fuzz::changed(content, random) : content);
    }
    ++(fuzz::read([&] { use(some_words(scratch, random), random); }) ? good : bad);
  });
  log::configure({});
  EXPECT_GT(good, 300U);
  EXPECT_GT(bad, 300U);
}

}  // namespace
}  // namespace axonn
