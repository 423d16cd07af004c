#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn {

// Files of tokens that other programs write and read; docs/data.md has their bytes.
enum class ShardFormat : uint8_t {
  megatron,  // PREFIX.bin with the tokens, PREFIX.idx with their documents
  llmc,      // one file with a header; no documents
  nanogpt,   // tokens and nothing else, so it is never guessed
};

template <>
struct Names<ShardFormat> {
  static constexpr Named<ShardFormat> all[] = {
      {"megatron", ShardFormat::megatron}, {"llmc", ShardFormat::llmc}, {"nanogpt", ShardFormat::nanogpt}};
};

// How a file holds a token, little-endian.
enum class TokenType : uint8_t { uint16, int32, uint32 };

template <>
struct Names<TokenType> {
  static constexpr Named<TokenType> all[] = {
      {"uint16", TokenType::uint16}, {"int32", TokenType::int32}, {"uint32", TokenType::uint32}};
};

constexpr int64_t bytes_of(TokenType type) { return type == TokenType::uint16 ? 2 : 4; }

// The type that a format takes for ids below `vocabulary`, as its own writer chooses it. UserError
// for a vocabulary that the format cannot hold.
TokenType token_type(ShardFormat format, int64_t vocabulary);

}  // namespace axonn
