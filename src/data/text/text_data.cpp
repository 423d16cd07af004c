#include "axonn/data/text/text_data.hpp"

#include "core/files.hpp"
#include "data/text/text_encoding.hpp"

namespace axonn {

TextData TextData::load(const std::vector<std::string>& paths, TokenizerKind kind) {
  const TextFiles files = TextFiles::find(paths, kind);
  return load(files, kind == TokenizerKind::bytes ? Tokenizer::bytes() : Tokenizer::chars(files.characters()));
}

TextData TextData::load(const std::vector<std::string>& paths, const Tokenizer& tokenizer, DocumentEnds ends) {
  return load(TextFiles::find(paths, tokenizer), tokenizer, ends);
}

TextData TextData::load(const TextFiles& files, const Tokenizer& tokenizer, DocumentEnds ends) {
  const TextEncoding encoding(files, tokenizer, ends);
  std::vector<int32_t> all;
  for (const TextPart& part : encoding.parts()) {
    const std::vector<int32_t> tokens = encoding.tokens(part);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return TextData(tokenizer, std::move(all), files.read());
}

TextData::TextData(Tokenizer tokenizer, std::vector<int32_t> tokens, FilesRead read)
    : tokenizer_(std::move(tokenizer)), tokens_(std::move(tokens)), read_(std::move(read)) {}

uint64_t TextData::fingerprint() const {
  disk::Hash64 hash;
  hash.update(std::as_bytes(tokens()));
  return hash.digest();
}

}  // namespace axonn
