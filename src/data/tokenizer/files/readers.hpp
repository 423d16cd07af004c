#pragma once

#include "data/tokenizer/files/file_text.hpp"
#include "data/tokenizer/files/text_ends.hpp"
#include "data/tokenizer/tokenizer_model.hpp"

// One reader per format. All throw UserErrors of one sentence for files that are broken, or that
// ask for what does not exist here. `config` names the tokens at the ends of a text.
namespace axonn {

// Hugging Face's tokenizer.json with a model of type BPE.
TokenizerRules read_tokenizer_json(const FileText& file, const TokenizerConfig& config);

// GPT-2's vocab.json (token: id) and merges.txt (a merge per line, most frequent first). The
// config's class says how text is split: as GPT-2 does it, or Qwen 2.
TokenizerRules read_vocabulary_and_merges(const FileText& vocabulary, const FileText& merges,
                                          const TokenizerConfig& config);

// tiktoken's ranks: a token in base64 and its id per line. The name of the file says how text is
// split, and which special tokens there are.
TokenizerRules read_tiktoken(const FileText& file, const TokenizerConfig& config);
// Whether a file has that form, whatever its name.
bool is_tiktoken(const FileText& file);

// SentencePiece's model, a message of protocol buffers, of type BPE.
TokenizerRules read_sentencepiece(const FileText& file, const TokenizerConfig& config);

}  // namespace axonn
