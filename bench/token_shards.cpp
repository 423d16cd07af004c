// token_shards: how fast tokens are written to a shard and read from the mapped file.
//   build/release/bin/token_shards --tokens 1G
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/core/text.hpp"
#include "axonn/data/shards/shard_writer.hpp"
#include "axonn/data/shards/token_shard.hpp"

namespace {

using namespace axonn;
namespace fs = std::filesystem;

constexpr int64_t kVocabulary = 50257, kDocument = 2048;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(const char* what, int64_t tokens, double seconds) {
  std::printf("%-44s %8.1f M tokens/s  %8.3f s\n", what, static_cast<double>(tokens) / seconds / 1e6, seconds);
}

void write(const fs::path& prefix, int64_t tokens) {
  ShardWriter writer(prefix, ShardFormat::megatron, kVocabulary);
  std::vector<int32_t> document(kDocument);
  for (size_t i = 0; i < document.size(); ++i) document[i] = static_cast<int32_t>(i * 7919 % kVocabulary);
  for (int64_t done = 0; done < tokens; done += kDocument) writer.append(document);
  writer.finish();
}

// Windows of the shard, in the order of the file or in a random one.
int64_t read(const TokenShard& shard, int64_t window, bool in_order) {
  std::vector<int64_t> ids(static_cast<size_t>(window));
  const int64_t windows = shard.tokens() / window;
  int64_t sum = 0;
  for (int64_t i = 0; i < windows; ++i) {
    const auto drawn = philox(1, static_cast<uint64_t>(i), 0, 0);
    const int64_t place = in_order ? i : static_cast<int64_t>(drawn[0] % static_cast<uint64_t>(windows));
    shard.read(place * window, std::span(ids));
    sum += ids.back();
  }
  return sum;
}

// The first batch of a file of 20 GB, of which nothing is on the disk.
void read_sparse(const fs::path& file, int64_t window) {
  constexpr int64_t kBytes = 20'000'000'000;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> made(std::fopen(file.c_str(), "w"), &std::fclose);
  }
  fs::resize_file(file, kBytes);
  std::vector<int64_t> ids(static_cast<size_t>(window));
  const double seconds = seconds_of([&] {
    const TokenShard shard = TokenShard::open(file, ShardFormat::nanogpt);
    for (int64_t row = 0; row < 8; ++row) shard.read(row * (shard.tokens() - window) / 7, std::span(ids));
  });
  std::printf("%-44s %8.3f ms\n", "8 windows of a new file of 20 GB, and opening it", seconds * 1e3);
  fs::remove(file);
}

void run(const std::string& count, int64_t window, const fs::path& directory) {
  const int64_t tokens = parse_count(count, "--tokens", Suffixes::decimal);
  const fs::path folder = directory / ("axonn-token-shards-" + std::to_string(::getpid())), prefix = folder / "shard";
  fs::create_directories(folder);
  print("written", tokens, seconds_of([&] { write(prefix, tokens); }));
  const TokenShard shard = TokenShard::open(prefix);
  for (const char* what : {"first", "second"})
    for (const bool in_order : {true, false}) {
      int64_t sum = 0;
      const double seconds = seconds_of([&] { sum = read(shard, window, in_order); });
      const std::string name = detail::concatenate(what, " reading ", in_order ? "in order" : "in random order");
      print(name.c_str(), sum >= 0 ? shard.tokens() : 0, seconds);
    }
  print("ids compared with a vocabulary", shard.tokens(), seconds_of([&] { shard.check_vocabulary(kVocabulary); }));
  read_sparse(folder / "sparse.bin", window);
  fs::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Tokens per second that are written to a shard, and read from it.");
  std::string tokens = "100M", directory = fs::temp_directory_path();
  int64_t window = 1025;
  app.add_option("--tokens", tokens, "size of the shard")->capture_default_str();
  app.add_option("--window", window, "tokens that are read at once")->capture_default_str();
  app.add_option("--directory", directory, "where the shard is written")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(tokens, window, directory);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "token_shards: %s\n", error.what());
    return 1;
  }
}
