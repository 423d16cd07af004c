#include "axonn/core/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Insertions, deletions, replacements and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

template <typename String>
std::string nearest_sentence(std::string_view word, std::span<const String> candidates) {
  const auto near = std::ranges::min_element(candidates, {}, [&](const auto& c) { return edit_distance(word, c); });
  if (near == candidates.end()) return "";
  const size_t distance = edit_distance(word, *near);
  const bool mostly_other = 2 * distance > std::max(word.size(), std::string_view(*near).size());
  if (mostly_other || distance > std::max<size_t>(2, word.size() / 3)) return "";
  return "; did you mean '" + std::string(*near) + "'?";
}

std::string print(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  return nearest_sentence(word, candidates);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  return nearest_sentence(word, candidates);
}

std::string with_unit(double count) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (std::abs(count) >= 999.5 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0 && count == std::floor(count)) return print("%.0f%s", count, "");
  return print(std::abs(count) < 99.95 ? "%.1f%s" : "%.0f%s", count, kUnits[unit]);
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return print(unit == 0 ? "%.0f %s" : "%.2f %s", bytes, kUnits[unit]);
}

std::string duration_text(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char buffer[64];
  if (total >= 3600)
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld:%02ld", static_cast<long>(total / 3600),
                  static_cast<long>(total / 60 % 60), static_cast<long>(total % 60));
  else
    std::snprintf(buffer, sizeof buffer, "%ld:%02ld", static_cast<long>(total / 60), static_cast<long>(total % 60));
  return buffer;
}

std::string clock_text(std::time_t when, std::time_t now) {
  std::tm then{}, today{};
  localtime_r(&when, &then);
  localtime_r(&now, &today);
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), same_day ? "%H:%M" : "%d %b %H:%M", &then);
  return text.data();
}

int64_t parse_count(std::string_view text, std::string_view what, Suffixes suffixes) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  const int power = suffix.empty() ? 0 : suffix == "k" ? 1 : suffix == "M" ? 2 : suffix == "G" ? 3 : -1;
  AXONN_CHECK(error == std::errc() && power >= 0 && value >= 0, "core.parse_count", what,
              " must be a number such as 4096, 64k or 4M, got '", text, "'");
  for (int i = 0; i < power; ++i)
    AXONN_CHECK(!__builtin_mul_overflow(value, suffixes == Suffixes::binary ? 1024 : 1000, &value), "core.parse_count",
                what, " is too large: '", text, "'");
  return value;
}

std::string binary_count_text(int64_t count) {
  size_t unit = 0;
  for (; unit < 3 && count != 0 && count % 1024 == 0; ++unit) count /= 1024;
  constexpr const char* kSuffixes[] = {"", "k", "M", "G"};
  return std::to_string(count) + kSuffixes[unit];
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace axonn
