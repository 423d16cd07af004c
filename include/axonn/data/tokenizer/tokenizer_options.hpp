#pragma once

namespace axonn {

// Only for tokenizers of files; the others have no special tokens.
struct EncodeOptions {
  // A special token, such as <|endoftext|>, that stands in the text becomes this token. Otherwise
  // it is text like any other, as in documents that only talk about it.
  bool find_special = false;
  // Adds the special tokens that the files put around a text: in most, a token that begins it.
  bool add_special = false;
};

struct DecodeOptions {
  bool skip_special = false;  // special tokens leave no text
};

}  // namespace axonn
