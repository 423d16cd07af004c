// The tokens of a text are made once, by all ranks together, and are those of a text in memory.
#include "axonn/tasks/text/text_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "axonn/data/text/text_data.hpp"
#include "data/shards/shard_files.hpp"
#include "support/rank_test.hpp"
#include "support/shared_directory.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using test::Tokens;

// Names in a folder, sorted; nothing if it is not there.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// As a user whom the modes of files hold back, even if the test runs as root.
class Unprivileged {
 public:
  Unprivileged() {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) std::abort();
  }
  ~Unprivileged() {
    // The other ranks may read this process's memory again, as Open MPI does.
    if (::seteuid(::getuid()) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0) std::abort();
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
};

class TextCacheTest : public testing::Test {
 protected:
  // Some megabytes, so that every rank has a part.
  TextCacheTest() {
    for (int i = 0; i < 600'000; ++i) content += std::to_string(int64_t{i} * 7919 % 99991) + "\n";
    write_text(content);
  }

  void write_text(const std::string& text) const {
    if (test_environment().rank() == 0) {
      fs::create_directories(shared.path());
      std::ofstream(shared / "text", std::ios::binary) << text;
    }
    shared.barrier();
  }

  TextFiles texts() const { return TextFiles::find({(shared / "text").string()}, bytes); }
  TokenSource tokens_of(TextCache& cache) const { return cache.tokens_of(texts(), bytes, DocumentEnds::tokens); }
  void keep_tokens() const {
    TextCache cache(test_environment(), shared / "run");
    tokens_of(cache);
    cache.keep();
  }

  // The one folder of tokens.
  fs::path folder() const {
    const std::vector<std::string> names = names_in(shared / "run/tokens");
    EXPECT_EQ(names.size(), 1U);
    return names.empty() ? fs::path() : shared / "run/tokens" / names.front();
  }
  // By rank 0, while the others wait.
  void change(const std::function<void(const fs::path&)>& how) const {
    shared.barrier();
    if (test_environment().rank() == 0) how(folder());
    shared.barrier();
  }

  const test::SharedDirectory shared;
  const Tokenizer bytes = Tokenizer::bytes();
  std::string content;
};

TEST_F(TextCacheTest, TheTokensAreThoseOfATextInMemory) {
  TextCache cache(test_environment(), shared / "run");
  const TokenSource tokens = tokens_of(cache);
  ASSERT_EQ(tokens.tokens(), std::ssize(content));
  EXPECT_EQ(tokens.fingerprint(), TextData::load(texts(), bytes).fingerprint());
  Tokens all(content.size());
  tokens.read(0, all);
  EXPECT_TRUE(std::ranges::equal(all, content, {}, {}, [](char c) { return int64_t{static_cast<unsigned char>(c)}; }));
  const int64_t part = std::ssize(content) / test_environment().ranks();
  for (int64_t begin = std::max<int64_t>(0, part - 1100); begin + 9 < part + 1100 && begin + 9 < std::ssize(content);
       begin += 7) {
    Tokens some(9);
    tokens.read(begin, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + begin)) << begin;
  }
}

TEST_F(TextCacheTest, EveryRankMakesAPartAndLaterStartsFindThem) {
  keep_tokens();
  const fs::path made = folder();
  const auto parts = std::ranges::count_if(names_in(made), [](const auto& name) { return name.ends_with(".bin"); });
  EXPECT_EQ(parts, test_environment().ranks());
  const auto before = fs::last_write_time(made / "part-00000.bin");
  shared.barrier();
  keep_tokens();
  EXPECT_EQ(folder(), made);
  EXPECT_EQ(fs::last_write_time(made / "part-00000.bin"), before);
}

TEST_F(TextCacheTest, NothingIsLeftOfARunThatDoesNotBegin) {
  {
    TextCache cache(test_environment(), shared / "run");
    tokens_of(cache);
    EXPECT_EQ(names_in(shared / "run/tokens").size(), 1U);
    EXPECT_TRUE(folder().native().ends_with(".partial"));
    shared.barrier();
  }
  shared.barrier();
  EXPECT_FALSE(fs::exists(shared / "run/tokens"));
}

TEST_F(TextCacheTest, TornAndChangedTokensAreMadeAgain) {
  keep_tokens();
  for (const auto& [name, tear] :
       {std::pair<const char*, void (*)(const fs::path&)>{
            "cut short", [](const fs::path& made) { fs::resize_file(made / "part-00000.bin", 1000); }},
        {"of the same size",
         [](const fs::path& made) {
           std::fstream file(made / "part-00000.bin", std::ios::in | std::ios::out | std::ios::binary);
           file.seekp(1000).write("x\0", 2);
         }},
        {"no shard", [](const fs::path& made) { fs::remove(made / "part-00000.idx"); }},
        {"no summary", [](const fs::path& made) { fs::remove(made / "summary.json"); }},
        {"half a summary", [](const fs::path& made) { fs::resize_file(made / "summary.json", 20); }}}) {
    SCOPED_TRACE(name);
    change(tear);
    TextCache cache(test_environment(), shared / "run");
    EXPECT_EQ(tokens_of(cache).fingerprint(), TextData::load(texts(), bytes).fingerprint());
    cache.keep();
    EXPECT_FALSE(folder().native().ends_with(".partial"));
  }
}

TEST_F(TextCacheTest, FilesOfAKilledJobAreNeverUsed) {
  keep_tokens();
  change([](const fs::path& made) { fs::rename(made, made.native() + ".123.partial"); });
  TextCache cache(test_environment(), shared / "run");
  EXPECT_TRUE(names_in(shared / "run/tokens").empty());
  EXPECT_EQ(tokens_of(cache).tokens(), std::ssize(content));
}

TEST_F(TextCacheTest, OtherTextsAndTokenizersHaveTheirOwnAndUnusedOnesGo) {
  keep_tokens();
  const fs::path made = folder();
  change([](const fs::path& one) { fs::create_directories(one.parent_path() / "of-a-user"); });
  write_text(content + "more");
  TextCache cache(test_environment(), shared / "run");
  EXPECT_EQ(tokens_of(cache).tokens(), std::ssize(content) + 4);
  const Tokenizer characters = Tokenizer::chars("\n0123456789more");
  EXPECT_EQ(cache.tokens_of(texts(), characters, DocumentEnds::tokens).tokens(), std::ssize(content) + 4);
  tokens_of(cache);  // the same again
  cache.keep();
  const std::vector<std::string> names = names_in(shared / "run/tokens");
  EXPECT_EQ(names.size(), 3U);
  EXPECT_EQ(names.back(), "of-a-user");
  EXPECT_EQ(std::ranges::count(names, made.filename().string()), 0);
}

TEST_F(TextCacheTest, AFolderOfAKilledJobThatCannotBeRemovedEndsNothing) {
  const fs::path left = shared / "run/tokens/0123456789abcdef.1.partial";
  const bool leads = test_environment().rank() == 0;
  if (leads) {
    fs::create_directories(left);
    std::ofstream(left / "part-00000.bin") << "x";
    fs::permissions(left, fs::perms(0555));
  }
  shared.barrier();
  std::optional<TextCache> cache;
  {
    std::optional<Unprivileged> nobody;
    if (leads) nobody.emplace();
    EXPECT_NO_THROW(cache.emplace(test_environment(), shared / "run"));
  }
  ASSERT_TRUE(cache);
  EXPECT_TRUE(fs::exists(left));
  EXPECT_EQ(tokens_of(*cache).tokens(), std::ssize(content));
  cache->keep();
  EXPECT_EQ(tokens_of(*cache).tokens(), std::ssize(content));
  shared.barrier();
  std::error_code gone;
  if (leads) fs::permissions(left, fs::perms::owner_all, gone);
}

TEST_F(TextCacheTest, AFolderThatCannotBeMadeIsAnErrorOnEveryRank) {
  if (test_environment().rank() == 0) std::ofstream(shared / "file") << "x";
  shared.barrier();
  TextCache cache(test_environment(), shared / "file");  // a file in the place of the run's directory
  EXPECT_THROW(tokens_of(cache), BackendError);
  shared.barrier();
}

}  // namespace
}  // namespace axonn
