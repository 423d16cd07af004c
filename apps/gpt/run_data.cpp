#include "run_data.hpp"

#include <optional>
#include <utility>

#include <axonn/core/error.hpp>
#include <axonn/data/tokens/named_data.hpp>
#include <axonn/data/tokens/shard_summary.hpp>
#include <axonn/data/tokens/token_windows.hpp>

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

}  // namespace

axonn::TokenData load_run_data(GptOptions& options, const axonn::CheckpointReader* resumed) {
  axonn::TokenDataOptions from = {.data = axonn::named_data(options.data, "--data"),
                                  .validation = axonn::named_data(options.validation_data, "--val-data"),
                                  .validation_fraction = options.validation_fraction,
                                  .validation_tokens = options.validation_tokens,
                                  .order = options.order};
  for (const axonn::NamedData& named : from.validation)
    AXONN_CHECK(named.weight == 0, "gpt.train", "--val-data takes no weights: all of it validates");
  from.tokenizer = resumed == nullptr ? tokenizer_of_new_run(options, from.data) : tokenizer_of(*resumed);
  if (options.has_no_tokenizer()) from.vocabulary = options.model.shape.vocabulary;
  axonn::TokenData data = axonn::TokenData::load(from);
  AXONN_CHECK(!options.document_mask || (data.tokenizer() && data.tokenizer()->end_token()), "gpt.train",
              "--document-mask needs a tokenizer of files that names the token that ends a document; give one with "
              "--tokenizer, such as that of gpt tokenize");
  if (options.model.shape.vocabulary == 0) options.model.shape.vocabulary = data.vocabulary();
  options.choose_steps(
      axonn::TokenWindows(data, options.model.shape.sequence, static_cast<uint64_t>(options.run.train.seed)).epoch());
  return data;
}
