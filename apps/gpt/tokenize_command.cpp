#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/transport/launch.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/log.hpp>
#include <axonn/core/names.hpp>
#include <axonn/core/text.hpp>
#include <axonn/data/corpus/tokenize_corpus.hpp>

#include "commands.hpp"
#include "progress_line.hpp"

namespace {

using Clock = std::chrono::steady_clock;

// 12345678 -> "12.3 MB"
std::string size_text(double bytes) {
  const std::string count = axonn::with_unit(bytes);
  return count + (count.find(' ') == std::string::npos ? " B" : "B");
}

// The way through the inputs: a line that is redrawn, or a line of the log every half minute.
class Progress {
 public:
  void show(std::string_view what, int64_t done, int64_t all) {
    if (what != what_) begin(what, done);
    const auto now = Clock::now();
    if (!line_->is_shown() && now - logged_ < std::chrono::seconds(30)) return;
    logged_ = now;
    const std::string text = line_text(done, all);
    if (line_->is_shown())
      line_->show(text);
    else
      axonn::log::info(text);
  }
  void end() { line_.reset(); }

 private:
  void begin(std::string_view what, int64_t done) {
    what_ = what;
    first_ = done;
    line_.emplace();
    begin_ = logged_ = Clock::now();
  }

  std::string line_text(int64_t done, int64_t all) const {
    std::string text = axonn::detail::concatenate(what_, " ", size_text(static_cast<double>(done)), " of ",
                                                  size_text(static_cast<double>(all)));
    if (done <= first_ || done == all) return text;
    const std::chrono::duration<double> elapsed = Clock::now() - begin_;
    const double rate = static_cast<double>(done - first_) / elapsed.count();
    return text +
           axonn::detail::concatenate("  ", size_text(rate), "/s  ", line_->time_left(done - first_, all - first_));
  }

  std::string what_;
  int64_t first_ = 0;
  std::optional<ProgressLine> line_;
  Clock::time_point begin_, logged_;
};

// Texts as a shard of tokens. One process does it, with several threads.
class TokenizeCommand : public axonn::Command {
 public:
  std::string name() const override { return "tokenize"; }
  std::string help() const override { return "write texts as a file of tokens, and learn a tokenizer"; }

  void add_flags(CLI::App& app) override {
    app.add_option("INPUTS", options_.inputs, "files of text, lines of JSON (.jsonl), .gz and .zst of these, folders")
        ->required();
    app.add_option("--out", out_, "what the names of the results begin with, such as data/mine")->required();
    app.add_option("--tokenizer", options_.tokenizer,
                   "'bytes', or a directory or file of a tokenizer, such as tokenizer.json");
    app.add_option("--train-bpe", options_.train_vocabulary, "learn a tokenizer of this many tokens from the inputs");
    app.add_option("--pattern", pattern_,
                   "how a tokenizer that is learned splits texts into words: " + axonn::all_names<axonn::WordPattern>())
        ->capture_default_str();
    app.add_option("--format", format_, "format of the results: " + axonn::all_names<axonn::ShardFormat>())
        ->capture_default_str();
    app.add_option("--text-key", options_.text_key, "key of the text in lines of JSON")->capture_default_str();
    app.add_option("--on-bad-line", bad_lines_, "what a line of JSON without a text is: error, or skip")
        ->capture_default_str();
    app.add_flag("--no-eos", no_eos_, "leave out the token that ends each document");
    app.add_flag("--no-bos", no_bos_, "leave out the tokens that the tokenizer's files put around a text");
    app.add_flag("--special", options_.finds_special,
                 "special tokens that are typed in a text become these tokens; otherwise they are text");
    app.add_option("--workers", options_.workers, "threads; 0: one per core")->capture_default_str();
    app.add_flag("--resume", options_.resume, "go on where a process was killed; the result is the same");
    app.add_flag("--overwrite", options_.overwrite, "replace results, and beginnings, that exist");
  }

  std::optional<int> prepare(char**) override {
    if (axonn::launched_rank() != 0) return 0;  // one of several processes is enough
    options_.out = out_;
    options_.pattern = axonn::parse_name<axonn::WordPattern>(pattern_, "--pattern");
    options_.format = axonn::parse_name<axonn::ShardFormat>(format_, "--format");
    options_.bad_lines = axonn::parse_name<axonn::BadLines>(bad_lines_, "--on-bad-line");
    options_.adds_end = !no_eos_;
    options_.adds_begin = !no_bos_;
    Progress progress;
    options_.progress = [&](std::string_view what, int64_t done, int64_t all) { progress.show(what, done, all); };
    const axonn::TokenizeSummary all = axonn::tokenize_corpus(options_);
    progress.end();
    std::printf("%s: %s documents, %s tokens (%s) of %s\n", out_.c_str(), count_text(all.documents).c_str(),
                count_text(all.tokens).c_str(), std::string(to_string(all.type)).c_str(),
                size_text(static_cast<double>(all.bytes)).c_str());
    print_if(all.empty_documents, "empty documents left out");
    print_if(all.skipped_lines, "lines without a text skipped");
    print_if(all.replaced, "places that are not UTF-8 replaced by U+FFFD");
    return 0;
  }

  int run(axonn::Environment&) override { return 0; }  // prepare() has done it

 private:
  static std::string count_text(int64_t count) { return axonn::with_unit(static_cast<double>(count)); }
  static void print_if(int64_t count, const char* what) {
    if (count > 0) std::printf("%lld %s\n", static_cast<long long>(count), what);
  }

  axonn::TokenizeOptions options_;
  std::string out_, pattern_ = "gpt2", format_ = "megatron", bad_lines_ = "error";
  bool no_eos_ = false, no_bos_ = false;
};

}  // namespace

std::unique_ptr<axonn::Command> make_tokenize_command() { return std::make_unique<TokenizeCommand>(); }
