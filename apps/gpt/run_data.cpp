#include "run_data.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <axonn/comm/each_reads.hpp>
#include <axonn/core/error.hpp>
#include <axonn/data/tokens/named_data.hpp>
#include <axonn/data/tokens/shard_summary.hpp>
#include <axonn/data/tokens/token_windows.hpp>
#include <axonn/program/ranks/loaded_data.hpp>

#include "run_origin.hpp"

namespace {

// That of the first file of tokens, if the user names none.
std::optional<axonn::Tokenizer> tokenizer_beside(GptOptions& options, const std::vector<axonn::NamedData>& data) {
  if (options.table.source("tokenizer") != axonn::OptionTable::Source::fallback || !options.from.empty()) return {};
  for (const axonn::NamedData& named : data) {
    if (!named.format) continue;
    const auto found = axonn::tokenizer_beside(named.path);
    if (found && !found->files().empty()) options.tokenizer = found->files().front().parent_path().string() + "/";
    return found;
  }
  return std::nullopt;
}

std::optional<axonn::Tokenizer> tokenizer_of_new_run(GptOptions& options, const std::vector<axonn::NamedData>& data) {
  if (options.has_no_tokenizer()) return std::nullopt;
  if (auto beside = tokenizer_beside(options, data)) return beside;
  if (options.tokenizer_is_of_files()) return axonn::Tokenizer::from_files(options.tokenizer);
  if (options.tokenizer == to_string(axonn::TokenizerKind::bytes)) return axonn::Tokenizer::bytes();
  return std::nullopt;  // the characters of the texts
}

axonn::TokenDataOptions data_options(GptOptions& options, const axonn::CheckpointReader* resumed) {
  AXONN_CHECK(!options.data.empty(), "gpt.train", "name the data to train on with --data PATH...");
  axonn::TokenDataOptions from = {.data = axonn::named_data(options.data, "--data"),
                                  .validation = axonn::named_data(options.validation_data, "--val-data"),
                                  .validation_fraction = options.validation_fraction,
                                  .validation_tokens = options.validation_tokens,
                                  .order = options.order};
  for (const axonn::NamedData& named : from.validation)
    AXONN_CHECK(named.weight == 0, "gpt.train", "--val-data takes no weights: all of it validates");
  from.tokenizer = resumed == nullptr ? tokenizer_of_new_run(options, from.data) : tokenizer_of(*resumed);
  if (options.has_no_tokenizer()) from.vocabulary = options.model.shape.vocabulary;
  return from;
}

// Ranks make the tokens of a text together, so they need the same.
void check_same_texts(axonn::Communicator& everyone, const axonn::TokenDataOptions& from,
                      const std::vector<axonn::TextFiles>& texts) {
  axonn::LoadedData mine;
  int64_t bytes = 0;
  for (const axonn::TextFiles& text : texts) {
    mine.fingerprint = mine.fingerprint * 31 + text.hash();
    mine.left_out += text.read().left_out_text();
    bytes += text.bytes();
  }
  mine.facts = {{"the vocabulary", from.tokenizer ? from.tokenizer->to_json() : ""},
                {"the number of bytes of text", std::to_string(bytes)}};
  axonn::check_ranks_read_the_same(everyone, mine);
}

axonn::TokenData loaded(GptOptions& options, const axonn::TokenDataOptions& from) {
  axonn::TokenData data = axonn::TokenData::load(from);
  AXONN_CHECK(!options.document_mask || (data.tokenizer() && data.tokenizer()->end_token()), "gpt.train",
              "--document-mask needs a tokenizer of files that names the token that ends a document; give one with "
              "--tokenizer, such as that of gpt tokenize");
  if (options.model.shape.vocabulary == 0) options.model.shape.vocabulary = data.vocabulary();
  options.choose_steps(
      axonn::TokenWindows(data, options.model.shape.sequence, static_cast<uint64_t>(options.run.train.seed)).epoch());
  return data;
}

}  // namespace

axonn::TokenData load_run_data(axonn::Communicator& everyone, GptOptions& options, axonn::TextCache& cache,
                               const axonn::CheckpointReader* resumed) {
  axonn::TokenDataOptions from;
  std::vector<axonn::TextFiles> texts;
  axonn::each_rank_reads(everyone, [&] {
    from = data_options(options, resumed);
    texts = axonn::find_texts(from);
  });
  check_same_texts(everyone, from, texts);
  for (const axonn::TextFiles& text : texts)
    from.texts.push_back({cache.tokens_of(text, *from.tokenizer, axonn::document_ends(from.order)), text.read()});
  std::optional<axonn::TokenData> data;
  axonn::each_rank_reads(everyone, [&] { data = loaded(options, from); });
  return *std::move(data);
}
