#include "options/flag_words.hpp"

#include <algorithm>
#include <charconv>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>

namespace axonn {
namespace {

constexpr const char* kWhere = "axonn_config.options";

int64_t count_of(std::string_view text, std::string_view what) {
  const int64_t count = parse_count(text, what, Suffixes::decimal);
  AXONN_CHECK(count >= 1 && count <= kMostGpus, kWhere, what, " must be from 1 to ", kMostGpus, ", got ", count);
  return count;
}

}  // namespace

FixedAxis Codec<FixedAxis>::parse(std::string_view text, std::string_view what) {
  const auto equals = text.find('=');
  const auto axis = std::ranges::find(kAxes, text.substr(0, equals), [](Axis a) { return to_string(a); });
  int size = 0;
  const char* end = text.data() + text.size();
  const bool number =
      equals != std::string_view::npos && std::from_chars(text.data() + equals + 1, end, size).ptr == end && size >= 1;
  AXONN_CHECK(axis != kAxes.end() && number, kWhere, what, " takes an axis and its size, such as x=4 or data=2, got '",
              text, "'");
  return {*axis, size};
}

std::string Codec<FixedAxis>::print(const FixedAxis& fixed) {
  return std::string(to_string(fixed.axis)) + "=" + std::to_string(fixed.size);
}

GpuCounts Codec<GpuCounts>::parse(std::string_view text, std::string_view what) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return {{count_of(text, what)}};
  const int64_t first = count_of(text.substr(0, dots), what), last = count_of(text.substr(dots + 2), what);
  AXONN_CHECK(first < last, kWhere, what, " takes a range that ascends, such as 8..4096, got '", text, "'");
  GpuCounts range;
  for (int64_t one = first; one <= last; one *= 2) range.counts.push_back(one);
  return range;
}

std::string Codec<GpuCounts>::print(const GpuCounts& range) {
  const std::string first = std::to_string(range.counts.front());
  return range.counts.size() == 1 ? first : first + ".." + std::to_string(range.counts.back());
}

}  // namespace axonn
