// tokenizing: how fast `gpt tokenize` makes tokens of texts, with numbers of threads in turns.
//   build/release/bin/tokenizing runs/docs.tokenizer docs --threads 1 2
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "axonn/core/log.hpp"
#include "axonn/core/median.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/data/corpus/tokenize_corpus.hpp"

namespace {

using namespace axonn;
namespace fs = std::filesystem;

struct Encoding {
  double seconds = 0;
  TokenizeSummary summary;
};

// Its seconds are those from the first text to the last: without reading the tokenizer, and without
// giving the files their names. The state is saved once.
Encoding encode(TokenizeOptions options, int threads) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin, end;
  options.workers = threads;
  options.progress = [&](std::string_view, int64_t done, int64_t) { (done == 0 ? begin : end) = Clock::now(); };
  const TokenizeSummary summary = tokenize_corpus(options);
  return {.seconds = std::chrono::duration<double>(end - begin).count(), .summary = summary};
}

// The medians of all turns but the first, which warms up; ratios are those of one turn.
void run(const TokenizeOptions& options, const std::vector<int>& threads, int repetitions) {
  std::vector<std::vector<double>> rates(threads.size()), ratios(threads.size());
  TokenizeSummary summary;
  for (int turn = -1; turn < repetitions; ++turn) {
    double first = 0;
    for (size_t i = 0; i < threads.size(); ++i) {
      const Encoding encoding = encode(options, threads[i]);
      summary = encoding.summary;
      if (i == 0) first = encoding.seconds;
      if (turn < 0) continue;
      rates[i].push_back(static_cast<double>(summary.bytes) / encoding.seconds / 1e6);
      ratios[i].push_back(first / encoding.seconds);
    }
  }
  std::printf("%.1f MB of text, %lld documents, %lld tokens\n", static_cast<double>(summary.bytes) / 1e6,
              static_cast<long long>(summary.documents), static_cast<long long>(summary.tokens));
  for (size_t i = 0; i < threads.size(); ++i)
    std::printf("%3d threads %8.2f MB/s, %.2f times the first\n", threads[i], median(rates[i]), median(ratios[i]));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("MB per second of text that become tokens, with numbers of threads in turns.");
  TokenizeOptions options{.adds_end = false, .overwrite = true, .seconds_between_saves = 1e9};
  std::vector<int> threads = {1, 2};
  std::string directory = fs::temp_directory_path();
  int repetitions = 5;
  app.add_option("TOKENIZER", options.tokenizer, "bytes, or a tokenizer's directory or file")->required();
  app.add_option("TEXTS", options.inputs, "files and folders")->required();
  app.add_option("--threads", threads, "numbers of threads")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repetitions", repetitions, "turns")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--directory", directory, "where the tokens are written")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const fs::path folder = fs::path(directory) / ("axonn-tokenizing-" + std::to_string(::getpid()));
  options.out = folder / "out";
  int status = 0;
  try {
    log::configure({.level = log::Level::warn});
    keep_freed_memory();  // as gpt does
    fs::create_directories(folder);
    run(options, threads, repetitions);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizing: %s\n", sentence_of(error).c_str());
    status = 1;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return status;
}
