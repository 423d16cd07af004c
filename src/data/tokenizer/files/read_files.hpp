#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/tokenizer/tokenizer_model.hpp"

namespace axonn {

struct ReadFiles {
  TokenizerRules rules;
  std::vector<std::filesystem::path> files;
  uint64_t hash = 0;  // xxh64 of all their bytes, in this order
};

// Reads as Tokenizer::from_files() describes it.
ReadFiles read_files(const std::filesystem::path& path);
bool has_tokenizer(const std::filesystem::path& directory);

}  // namespace axonn
