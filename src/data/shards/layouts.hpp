#pragma once

#include <cstddef>
#include <cstdint>

#include "axonn/data/shards/shard_format.hpp"

// Megatron's index, little-endian and packed:
//   "MMIDIDX", two NUL bytes, u64 version, u8 type, u64 sequences S, u64 documents + 1
//   i32 lengths[S]        tokens of each sequence
//   i64 offsets[S]        its first byte in the file of tokens
//   i64 documents[D + 1]  the first sequence of each document, and S
//   i8 modes[S]           only for texts with images
namespace axonn::megatron {

inline constexpr char kMagic[10] = "MMIDIDX\0";  // 9 bytes, of which the last two are NUL
inline constexpr size_t kMagicBytes = 9, kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26;
inline constexpr size_t kHeaderBytes = 34, kLengthBytes = 4, kOffsetBytes = 8, kDocumentBytes = 8;
inline constexpr uint64_t kVersion = 1;

// The numbers of Megatron's types that are read and written.
inline constexpr uint8_t kInt32 = 4, kUint16 = 8;
constexpr uint8_t number_of(TokenType type) { return type == TokenType::uint16 ? kUint16 : kInt32; }

}  // namespace axonn::megatron

// llm.c's header: 256 numbers of 32 bits, of which the first are magic, version and tokens.
namespace axonn::llmc {

inline constexpr size_t kHeaderBytes = 1024;
inline constexpr uint32_t kMagic16 = 20240520, kVersion16 = 1, kMagic32 = 20240801, kVersion32 = 7;
inline constexpr uint32_t kMagicOfQuestions = 20240522;

}  // namespace axonn::llmc
