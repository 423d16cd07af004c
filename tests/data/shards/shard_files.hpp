#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The bytes of shards, written without the code under test.
namespace axonn::test {

using Tokens = std::vector<int64_t>;

// Little-endian.
inline std::string number(int64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  return text;
}

inline std::string numbers(const Tokens& values, int bytes) {
  std::string text;
  for (const int64_t value : values) text += number(value, bytes);
  return text;
}

struct MegatronFiles {
  std::string tokens, index;
};

// Sequences of tokens, and the first sequence of each document.
inline MegatronFiles megatron_files(const std::vector<Tokens>& sequences, const Tokens& documents, int width) {
  MegatronFiles files;
  Tokens lengths, offsets, starts = documents;
  for (const Tokens& sequence : sequences) {
    lengths.push_back(static_cast<int64_t>(sequence.size()));
    offsets.push_back(static_cast<int64_t>(files.tokens.size()));
    files.tokens += numbers(sequence, width);
  }
  const auto count = static_cast<int64_t>(sequences.size());
  starts.push_back(count);
  files.index = std::string("MMIDIDX\0\0", 9) + number(1, 8) + number(width == 2 ? 8 : 4, 1) + number(count, 8) +
                number(static_cast<int64_t>(starts.size()), 8) + numbers(lengths, 4) + numbers(offsets, 8) +
                numbers(starts, 8);
  return files;
}

inline std::string llmc_file(const Tokens& tokens, int width) {
  std::string header = width == 2 ? number(20240520, 4) + number(1, 4) : number(20240801, 4) + number(7, 4);
  header += number(static_cast<int64_t>(tokens.size()), 4);
  header.resize(1024, '\0');
  return header + numbers(tokens, width);
}

}  // namespace axonn::test
