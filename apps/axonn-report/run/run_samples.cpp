#include "run/run_samples.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <axonn/core/utf8.hpp>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uintmax_t kMostImage = 4 << 20, kMostText = 64 << 10;  // bytes

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = i; j < i + 3; ++j) three = three << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63];
  }
  for (size_t i = 0; i < (3 - bytes.size() % 3) % 3; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

// 500 of "step-000500".
std::optional<int64_t> step_of(const std::string& stem) {
  constexpr std::string_view kStep = "step-";
  int64_t step = 0;
  if (!stem.starts_with(kStep)) return std::nullopt;
  const auto [end, error] = std::from_chars(stem.data() + kStep.size(), stem.data() + stem.size(), step);
  if (error != std::errc() || end != stem.data() + stem.size()) return std::nullopt;
  return step;
}

std::string begin_of(const fs::path& file, uintmax_t most) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(most, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

Json sample_of(int64_t step, const fs::path& file) {
  std::error_code gone;  // the run may go back meanwhile
  const uintmax_t size = fs::file_size(file, gone);
  if (gone) return {{"step", step}, {"text", ""}};
  if (file.extension() == ".png") {
    if (size > kMostImage) return {{"step", step}, {"text", "an image of more than 4 MiB, left out"}};
    return {{"step", step}, {"image", base64(begin_of(file, size))}};
  }
  const std::string text = axonn::printable(begin_of(file, std::min(size, kMostText)));
  return {{"step", step}, {"text", text + (size > kMostText ? "\n[cut at 64 KiB]" : "")}};
}

using Files = std::map<int64_t, fs::path>;  // by step

// Those of `files` that are shown.
Files some_of(const Files& files, int64_t most) {
  const std::vector<std::pair<int64_t, fs::path>> all(files.begin(), files.end());
  const auto count = static_cast<int64_t>(all.size());
  Files some;
  for (int64_t i = 1; i <= most && count > 0; ++i) some.insert(all[static_cast<size_t>((count * i - 1) / most)]);
  return some;
}

}  // namespace

Json samples_of(const fs::path& folder, int64_t most) {
  std::map<std::string, Files> by_kind;
  std::error_code absent;
  for (auto entry = fs::directory_iterator(folder, absent); !absent && entry != fs::directory_iterator();
       entry.increment(absent)) {
    const fs::path& file = entry->path();
    const std::string kind = file.extension().string();
    std::error_code ignored;
    const auto step = step_of(file.stem().string());
    if (step && (kind == ".png" || kind == ".txt") && fs::is_regular_file(file, ignored)) by_kind[kind][*step] = file;
  }
  Json samples = Json::array();
  for (const auto& [kind, files] : by_kind)
    for (const auto& [step, file] : some_of(files, most)) samples.push_back(sample_of(step, file));
  return samples;
}
