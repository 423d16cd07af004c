#include "axonn/data/tokens/named_data.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/data/tokens/blend.hpp"
#include "data/folder/content_guess.hpp"
#include "data/shards/layouts.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "data.named_data";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string head_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(kGuessBytes, '\0');
  in.read(head.data(), std::ssize(head));
  head.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return head;
}

bool begins_as_llmc(std::string_view head) {
  uint32_t magic = 0;
  if (head.size() < sizeof magic) return false;
  std::memcpy(&magic, head.data(), sizeof magic);
  return magic == llmc::kMagic16 || magic == llmc::kMagic32 || magic == llmc::kMagicOfQuestions;
}

// The format of what the user names without one; nothing: text.
std::optional<ShardFormat> guessed_format(const std::string& path) {
  const fs::path given = path, with_bin = path + ".bin", with_idx = path + ".idx";
  const fs::path index = fs::path(given).replace_extension(".idx");
  if (given.extension() == ".idx" || (given.extension() == ".bin" && is_file(index))) return ShardFormat::megatron;
  const bool prefix = !is_there(given);
  if (prefix && is_file(with_idx)) return ShardFormat::megatron;
  const fs::path file = prefix && is_file(with_bin) ? with_bin : given;
  if (!is_file(file)) return std::nullopt;
  const std::string head = head_of(file);
  if (begins_as_llmc(head)) return ShardFormat::llmc;
  AXONN_CHECK(file.extension() != ".bin" || guess_content(head).kind != ContentClass::binary, kWhere,
              shown_name(file.native()),
              " is no text, and no shard that is known by its content: Megatron's needs its ",
              ".idx beside it; nanoGPT's tokens are named as nanogpt:", shown_name(file.native()),
              ", and bytes that are to be taken as text as text:", shown_name(file.native()));
  return std::nullopt;
}

NamedData one(const std::string& word) {
  const size_t colon = word.find(':');
  if (colon != std::string::npos) {
    const std::string_view before = std::string_view(word).substr(0, colon);
    if (before == "text") return {.path = word.substr(colon + 1)};
    for (const auto& format : Names<ShardFormat>::all)
      if (before == format.name) return {.path = word.substr(colon + 1), .format = format.value};
  }
  return {.path = word, .format = guessed_format(word)};
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos &&
         word.find_first_of("0123456789") != std::string_view::npos;
}

}  // namespace

std::vector<NamedData> named_data(const std::vector<std::string>& words, std::string_view option) {
  const bool weighted = words.size() >= 2 && is_number(words.front()) && !is_there(words.front());
  std::vector<NamedData> all;
  for (size_t i = 0; i < words.size(); ++i) {
    int64_t weight = 0;
    if (weighted) {
      AXONN_CHECK(is_number(words[i]) && i + 1 < words.size(), kWhere, "with weights, ", option,
                  " takes a number and a path in turns, such as 0.7 a 0.3 b; ", shown_name(words[i]),
                  is_number(words[i]) ? " has no path behind it" : " has no weight before it");
      weight = parse_weight(words[i], detail::concatenate("the weight of ", shown_name(words[i + 1])));
      ++i;
    }
    all.push_back(one(words[i]));
    all.back().weight = weight;
  }
  return all;
}

}  // namespace axonn
