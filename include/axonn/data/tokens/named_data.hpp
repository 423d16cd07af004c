#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/data/shards/shard_format.hpp"

namespace axonn {

// A text or a shard of tokens that a user names.
struct NamedData {
  std::string path;
  std::optional<ShardFormat> format = {};  // nothing: text
  int64_t weight = 0;                      // in 10^-9; 0: none is given
};

// The words of an option such as --data: paths, or a weight before each ("0.7", "a", "0.3", "b").
// A path is of a shard if FORMAT: stands before it (megatron, llmc, nanogpt), if it names one or
// both files of Megatron's, or if the file begins as llm.c's. Everything else is text, also what
// begins with "text:". UserError for a weight that is none, or stands before some paths only, and
// for a .bin file that is neither text nor known; `option` names the words.
std::vector<NamedData> named_data(const std::vector<std::string>& words, std::string_view option);

}  // namespace axonn
