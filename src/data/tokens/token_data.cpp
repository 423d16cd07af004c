#include "axonn/data/tokens/token_data.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/data/text/text_data.hpp"
#include "axonn/data/tokens/shard_summary.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokens";

using Paths = std::vector<std::string>;

bool is_text(const NamedData& named) { return !named.format; }

Paths paths_of_texts(const std::vector<NamedData>& all) {
  Paths paths;
  for (const NamedData& named : all)
    if (is_text(named)) paths.push_back(named.path);
  return paths;
}

// The names of each part: without weights, all are one.
std::vector<std::vector<NamedData>> parts_of(const std::vector<NamedData>& all) {
  if (all.empty() || all.front().weight == 0) return {all};
  std::vector<std::vector<NamedData>> parts;
  for (const NamedData& named : all) parts.push_back({named});
  return parts;
}

// The texts of each source, in the order of find_texts().
std::vector<Paths> paths_of_sources(const TokenDataOptions& options) {
  std::vector<Paths> sources;
  for (const auto& part : parts_of(options.data)) sources.push_back(paths_of_texts(part));
  sources.push_back(paths_of_texts(options.validation));
  std::erase_if(sources, [](const Paths& paths) { return paths.empty(); });
  return sources;
}

Tokenizer tokenizer_of_characters(const std::vector<TextFiles>& texts) {
  AXONN_CHECK(!texts.empty(), kWhere,
              "--tokenizer chars is made from texts, and --data names only tokens; give the "
              "tokenizer that they were made with");
  std::string all;
  for (const TextFiles& text : texts) all += text.characters();
  if (texts.size() > 1) all += '\n';
  return Tokenizer::chars(all);
}

void append(FilesRead& all, const FilesRead& more) {
  all.files += more.files;
  all.bytes += more.bytes;
  all.left_out.insert(all.left_out.end(), more.left_out.begin(), more.left_out.end());
}

uint64_t hash_of(const std::vector<uint64_t>& numbers) {
  disk::Hash64 hash;
  hash.update(std::as_bytes(std::span(numbers)));
  return hash.digest();
}

int64_t sum_of(const std::vector<TokenData::Range>& ranges) {
  int64_t tokens = 0;
  for (const TokenData::Range& range : ranges) tokens += range.tokens();
  return tokens;
}

}  // namespace

std::vector<TextFiles> find_texts(TokenDataOptions& options) {
  std::vector<TextFiles> texts;
  for (const Paths& paths : paths_of_sources(options)) {
    AXONN_CHECK(options.tokenizer || options.vocabulary == 0, kWhere, shown_name(paths.front()),
                " is text, and --tokenizer none trains on files of tokens only; name a tokenizer");
    texts.push_back(options.tokenizer ? TextFiles::find(paths, *options.tokenizer)
                                      : TextFiles::find(paths, TokenizerKind::chars));
  }
  if (!options.tokenizer && options.vocabulary == 0) options.tokenizer = tokenizer_of_characters(texts);
  return texts;
}

// One load(). Sources are read in the order of the words that name them.
class TokenData::Loading {
 public:
  explicit Loading(TokenDataOptions options) : options_(std::move(options)) {}

  TokenData load() {
    AXONN_CHECK(!options_.data.empty(), kWhere, "no data: give files or directories with --data PATH...");
    AXONN_CHECK(options_.validation_fraction >= 0 && options_.validation_fraction < 1, kWhere,
                "the share of the data that validates must be in [0, 1), got ", options_.validation_fraction);
    if (options_.texts.empty()) read_texts();
    data_.order_ = options_.order;
    data_.tokenizer_ = options_.tokenizer;
    data_.vocabulary_ = options_.tokenizer ? options_.tokenizer->vocabulary_size() : options_.vocabulary;
    read_parts();
    hold_out();
    return std::move(data_);
  }

 private:
  void read_texts() {
    for (const TextFiles& files : find_texts(options_)) {
      TextData text = TextData::load(files, *options_.tokenizer, document_ends(options_.order));
      options_.texts.push_back({TokenSource(files.name(), std::move(text).take_tokens()), files.read()});
    }
  }

  void read_parts() {
    for (const auto& part : parts_of(options_.data))
      data_.parts_.push_back(
          {.weight = std::max<int64_t>(part.front().weight, 1), .ranges = sources(part, &data_.files_)});
    const bool one = data_.parts_.size() == 1 && data_.parts_.front().ranges.size() == 1;
    AXONN_CHECK(one || options_.order == SampleOrder::epochs, kWhere,
                "--sample-order drawn takes one text or one file of tokens, without weights; use epochs");
    if (one && options_.validation.empty()) {
      data_.fingerprint_ = data_.parts_.front().ranges.front().source.fingerprint();
      return;
    }
    std::vector<uint64_t> numbers = {options_.validation.empty() ? 0U : 1U};
    for (const Part& part : data_.parts_) {
      numbers.insert(numbers.end(), {static_cast<uint64_t>(part.weight), part.ranges.size()});
      for (const Range& range : part.ranges)
        numbers.insert(numbers.end(), {static_cast<uint64_t>(range.tokens()), range.source.fingerprint()});
    }
    data_.fingerprint_ = hash_of(numbers);
  }

  void hold_out() {
    const int64_t most = options_.validation_tokens;
    if (!options_.validation.empty()) {
      std::vector<uint64_t> numbers;
      for (Range& range : sources(options_.validation, nullptr)) {
        numbers.push_back(range.source.fingerprint());
        if (most > 0) range.end = std::min(range.end, most);
        data_.held_out_.push_back(std::move(range));
      }
      data_.validation_fingerprint_ = hash_of(numbers);
      return;
    }
    for (Part& part : data_.parts_)
      for (Range& range : part.ranges) {
        const int64_t end = range.end;
        range.end = static_cast<int64_t>(static_cast<double>(end) * (1 - options_.validation_fraction));
        if (most > 0) range.end = std::max(range.end, end - most);
        data_.held_out_.push_back({.source = range.source, .begin = range.end, .end = end});
      }
  }

  // Texts together are one source, in the place of the first of them.
  std::vector<Range> sources(const std::vector<NamedData>& all, FilesRead* files) {
    std::vector<Range> ranges;
    bool text_read = false;
    for (const NamedData& named : all) {
      if (!is_text(named)) {
        ranges.push_back(whole(shard(named)));
      } else if (!std::exchange(text_read, true)) {
        AXONN_ASSERT(next_text_ < options_.texts.size(), "tokens of ", options_.texts.size(), " texts");
        TextTokens& text = options_.texts[next_text_++];
        if (files != nullptr) append(*files, text.files);
        ranges.push_back(whole(std::move(text.source)));
      }
    }
    return ranges;
  }

  TokenSource shard(const NamedData& named) const {
    TokenSource source(TokenShard::open(named.path, named.format), data_.vocabulary_);
    AXONN_CHECK(source.tokens() > 0, kWhere, source.name(), " has no tokens; make it again");
    check_summary(named.path, source.tokens(), data_.tokenizer_);
    source.check_some_ids();
    return source;
  }

  static Range whole(TokenSource source) {
    const int64_t end = source.tokens();
    return {.source = std::move(source), .begin = 0, .end = end};
  }

  TokenDataOptions options_;
  TokenData data_;
  size_t next_text_ = 0;
};

TokenData TokenData::load(const TokenDataOptions& options) { return Loading(options).load(); }

int64_t TokenData::train_tokens() const {
  int64_t tokens = 0;
  for (const Part& part : parts_) tokens += sum_of(part.ranges);
  return tokens;
}

int64_t TokenData::validation_tokens() const { return sum_of(held_out_); }

}  // namespace axonn
