#pragma once

#include "axonn/model/decoder/config.hpp"

// Decoders of 2 blocks, 48 features and 101 tokens, which divide by no axis. The other sizes, such
// as the heads and the sequence, are the caller's.
namespace axonn::test {

struct NamedDecoder {
  const char* name;
  DecoderConfig config;
};

inline DecoderShape small_gpt2(DecoderShape sizes) {
  sizes.layers = 2;
  sizes.hidden = 48;
  sizes.vocabulary = 101;
  return sizes;
}

// Two heads of queries share one of keys.
inline DecoderShape small_llama(DecoderShape sizes) {
  sizes.kv_heads = sizes.heads / 2;
  sizes.gated = true;
  return rotated(small_gpt2(sizes));
}

}  // namespace axonn::test
