#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/scratch.hpp"

// Ids by other libraries for texts that are hard to split. They lie outside of the repository: the
// vocabularies belong to others.
namespace axonn::test {

inline const std::filesystem::path kOracles = AXONN_TOKENIZER_ORACLES;

#define AXONN_NEEDS_ORACLES()                                            \
  if (!std::filesystem::exists(::axonn::test::kOracles / "cases.jsonl")) \
  GTEST_SKIP() << "there are no oracles of tokenizers in " << ::axonn::test::kOracles.lexically_normal().string()

inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(kLetters.find(letter));
    if ((count += 6) < 8) continue;
    bytes += static_cast<char>(static_cast<unsigned char>(bits >> (count -= 8)));
  }
  return bytes;
}

// FIPS 180-4, in hexadecimal digits.
inline std::string sha256(std::string bytes) {
  static constexpr std::array<uint32_t, 64> kFactors = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  std::array<uint32_t, 8> sums = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = bytes.size() * 8;
  bytes += '\x80';
  bytes.resize((bytes.size() + 8 + 63) / 64 * 64);
  for (size_t i = 0; i < 8; ++i) bytes[bytes.size() - 1 - i] = static_cast<char>(bits >> (8 * i));
  for (size_t block = 0; block < bytes.size(); block += 64) {
    std::array<uint32_t, 64> words{};
    for (size_t i = 0; i < 64; ++i) words[i / 4] = words[i / 4] << 8 | static_cast<unsigned char>(bytes[block + i]);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
                 (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = sums;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t one =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kFactors[i] + words[i];
      const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    const std::array<uint32_t, 8> block_sums = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) sums[i] += block_sums[i];
  }
  std::string digits;
  for (const uint32_t sum : sums)
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[sum >> shift & 15];
  return digits;
}

inline std::string sha256_of(const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 0xFF);
  return sha256(std::move(bytes));
}

}  // namespace axonn::test
