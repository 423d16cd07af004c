#include "axonn/data/corpus/tokenize_corpus.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/data/shards/shard_writer.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "core/cores.hpp"
#include "core/files.hpp"
#include "data/corpus/chunk_reader.hpp"
#include "data/corpus/chunk_texts.hpp"
#include "data/corpus/corpus_files.hpp"
#include "data/corpus/job_files.hpp"
#include "data/corpus/ordered_work.hpp"
#include "data/tokenizer/document_tokens.hpp"
#include "data/tokenizer/training/bpe_training.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "data.corpus";
constexpr const char* kTokenizerFile = "tokenizer.json";

int num_workers(int wanted) {
  AXONN_CHECK(wanted >= 0, kWhere, "--workers must not be negative, got ", wanted);
  return wanted > 0 ? wanted : usable_cores();
}

// Some documents, one after the other.
struct EncodedTexts {
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;  // the end of each document in `tokens`
  int64_t bytes = 0, empty = 0;
  ChunkNotes notes;
  CorpusPlace after;
  int64_t used_bytes = 0;
};

struct CountedWords {
  WordCounts counts;
  int64_t used_bytes = 0;
};

class Tokenization {
 public:
  explicit Tokenization(const TokenizeOptions& options)
      : options_(options),
        workers_(num_workers(options.workers)),
        corpus_(find_corpus_files(options.inputs)),
        tokenizer_(given_tokenizer()),
        files_(options, description()) {}

  TokenizeSummary run() {
    if (!tokenizer_) tokenizer_ = trained_tokenizer();
    check_end();
    state_ = files_.state().value_or(JobState());
    if (!state_.complete) {
      encode();
      keep_tokenizer();
      files_.write(JobFiles::kSummary, summary_text());
      state_.complete = true;
      files_.save(state_);
    }
    const TokenizeSummary result = summary();
    files_.publish();
    return result;
  }

 private:
  bool of_bytes() const { return options_.tokenizer == "bytes"; }

  std::optional<Tokenizer> given_tokenizer() const {
    AXONN_CHECK(options_.tokenizer.empty() != (options_.train_vocabulary == 0), kWhere,
                "give one of --tokenizer and --train-bpe");
    if (of_bytes()) return Tokenizer::bytes();
    if (!options_.tokenizer.empty()) return Tokenizer::from_files(options_.tokenizer);
    const int64_t fewest = BpeTraining(options_.pattern).fewest_tokens();
    AXONN_CHECK(options_.train_vocabulary >= fewest, kWhere, "--train-bpe must be at least ", fewest,
                ", the bytes and the end of a document, got ", options_.train_vocabulary);
    return std::nullopt;
  }

  std::string tokenizer_text() const {
    if (!tokenizer_)
      return detail::concatenate("trained, ", options_.train_vocabulary, " tokens, ", to_string(options_.pattern));
    return of_bytes() ? "bytes" : disk::hex(tokenizer_->files_hash());
  }

  // All that the results follow from. A bad line that ended a process may be skipped by the next.
  Json description() const {
    Json files = Json::array();
    for (const CorpusFile& file : corpus_.files)
      files.push_back({{"path", to_utf8(file.path.native())}, {"bytes", file.bytes}, {"changed", file.changed}});
    return {{"tokenizer", tokenizer_text()},
            {"text_key", to_utf8(options_.text_key)},
            {"format", to_string(options_.format)},
            {"no_bos", !options_.adds_begin},
            {"no_eos", !options_.adds_end},
            {"special", options_.finds_special},
            {"files", std::move(files)}};
  }

  TextRules rules(BadLines bad_lines) const {
    return {.key = options_.text_key, .bad_lines = bad_lines, .any_bytes = of_bytes()};
  }

  void show(std::string_view what, int64_t done) const {
    if (options_.progress) options_.progress(what, done, corpus_.bytes());
  }

  Tokenizer trained_tokenizer() const {
    const fs::path file = files_.tokenizer() / kTokenizerFile;
    if (!fs::exists(file)) {
      const BpeTraining training(options_.pattern);
      const std::string text = training.tokenizer_json(count_words(training), options_.train_vocabulary);
      fs::create_directories(files_.tokenizer());
      files_.write(fs::path("tokenizer") / kTokenizerFile, text);
    }
    Tokenizer tokenizer = Tokenizer::from_files(file);
    if (tokenizer.vocabulary_size() < options_.train_vocabulary)
      log::warn("the texts have pairs for ", tokenizer.vocabulary_size(), " tokens only, not for ",
                options_.train_vocabulary);
    return tokenizer;
  }

  WordCounts count_words(const BpeTraining& training) const {
    ChunkReader reader(corpus_, {}, options_.chunk_bytes);
    WordCounts all;
    show("counting words", 0);
    work_in_order(
        workers_, [&] { return reader.next(); },
        [&, how = rules(options_.bad_lines)](const CorpusChunk& chunk) {
          CountedWords words{.used_bytes = chunk.used_bytes};
          for_each_text(chunk, corpus_.files, how, [&](std::string_view text) { training.count(text, words.counts); });
          return words;
        },
        [&](const CountedWords& words) {
          all.add(words.counts);
          show("counting words", words.used_bytes);
        });
    show("merging pairs", corpus_.bytes());
    return all;
  }

  void check_end() const {
    AXONN_CHECK(!options_.adds_end || tokenizer_->end_token(), kWhere,
                "the tokenizer has no token that ends a document; leave it out with --no-eos");
  }

  EncodedTexts encoded(const CorpusChunk& chunk) const {
    EncodedTexts texts{.after = chunk.after, .used_bytes = chunk.used_bytes};
    const DocumentForm form = {
        .begins = options_.adds_begin, .ends = options_.adds_end, .finds_special = options_.finds_special};
    texts.notes = for_each_text(chunk, corpus_.files, rules(options_.bad_lines), [&](std::string_view text) {
      if (text.empty()) {
        ++texts.empty;
        return;
      }
      const std::vector<int32_t> document = document_tokens(*tokenizer_, text, form);
      texts.bytes += std::ssize(text);
      texts.tokens.insert(texts.tokens.end(), document.begin(), document.end());
      texts.ends.push_back(texts.tokens.size());
    });
    return texts;
  }

  void encode() {
    ShardWriter writer(files_.shard(), options_.format, tokenizer_->vocabulary_size(), state_.shard);
    ChunkReader reader(corpus_, state_.place, options_.chunk_bytes);
    std::optional<std::chrono::steady_clock::time_point> saved;
    const std::chrono::duration<double> between(options_.seconds_between_saves);
    show("encoding", state_.used_bytes);
    work_in_order(
        workers_, [&] { return reader.next(); }, [&](const CorpusChunk& chunk) { return encoded(chunk); },
        [&](const EncodedTexts& texts) {
          take(texts, writer);
          show("encoding", texts.used_bytes);
          const auto now = std::chrono::steady_clock::now();
          if (saved && now - *saved < between) return;
          writer.sync();
          files_.save(state_);
          saved = now;
        });
    writer.finish();
  }

  void take(const EncodedTexts& texts, ShardWriter& writer) {
    size_t begin = 0;
    for (const size_t end : texts.ends) {
      writer.append(std::span(texts.tokens).subspan(begin, end - begin));
      begin = end;
    }
    state_.place = texts.after;
    state_.used_bytes = texts.used_bytes;
    state_.shard = writer.state();
    state_.bytes += texts.bytes;
    state_.empty_documents += texts.empty;
    state_.replaced += texts.notes.replaced;
    state_.skipped_lines += texts.notes.skipped;
    for (const std::string& warning : texts.notes.warnings)
      if (warnings_++ < kMostWarnings) log::warn(warning);
  }

  // A directory is read by the names of its files, and a file may have had another.
  static std::string kept_name(const fs::path& file) {
    const std::string name = file.filename(), kind = file.extension();
    if (kind == ".model") return "tokenizer.model";
    const bool other = name == "vocab.json" || name == "tokenizer_config.json";
    return kind == ".json" && !other ? kTokenizerFile : name;
  }

  void keep_tokenizer() const {
    if (of_bytes() || options_.tokenizer.empty()) return;
    fs::create_directories(files_.tokenizer());
    for (const fs::path& file : tokenizer_->files())
      fs::copy_file(file, files_.tokenizer() / kept_name(file), fs::copy_options::overwrite_existing);
  }

  TokenizeSummary summary() const {
    const int64_t vocabulary = tokenizer_->vocabulary_size();
    return {.documents = state_.shard.documents,
            .tokens = state_.shard.tokens,
            .bytes = state_.bytes,
            .empty_documents = state_.empty_documents,
            .replaced = state_.replaced,
            .skipped_lines = state_.skipped_lines,
            .hash = state_.shard.hash,
            .vocabulary = vocabulary,
            .type = token_type(options_.format, vocabulary)};
  }

  std::string summary_text() const {
    const TokenizeSummary all = summary();
    const auto end = tokenizer_->end_token();
    const Json file = {{"format", to_string(options_.format)},
                       {"type", to_string(all.type)},
                       {"documents", all.documents},
                       {"tokens", all.tokens},
                       {"bytes", all.bytes},
                       {"tokens_xxh64", disk::hex(all.hash)},
                       {"empty_documents", all.empty_documents},
                       {"replaced_utf8", all.replaced},
                       {"skipped_lines", all.skipped_lines},
                       {"files", corpus_.read.files},
                       {"vocabulary", all.vocabulary},
                       {"end_token", options_.adds_end && end ? Json(*end) : Json()},
                       {"tokenizer", of_bytes() ? "bytes" : "files"},
                       {"tokenizer_xxh64", of_bytes() ? Json() : Json(disk::hex(tokenizer_->files_hash()))}};
    return file.dump(1) + "\n";
  }

  const TokenizeOptions& options_;
  int workers_;
  CorpusFiles corpus_;
  std::optional<Tokenizer> tokenizer_;
  JobFiles files_;
  JobState state_;
  size_t warnings_ = 0;
};

}  // namespace

TokenizeSummary tokenize_corpus(const TokenizeOptions& options) { return Tokenization(options).run(); }

}  // namespace axonn
