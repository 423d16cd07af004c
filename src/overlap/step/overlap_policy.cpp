#include "axonn/overlap/step/overlap_policy.hpp"

#include <algorithm>
#include <charconv>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/terms/overlap_portions.hpp"

namespace axonn {
namespace {

constexpr std::string_view kLayers = "layers";
constexpr int64_t kAnyBytes = int64_t{1} << 60;

}  // namespace

CacheBudget parse_cache_budget(std::string_view text) {
  text = trimmed(text);
  if (!text.ends_with(kLayers)) return {.bytes = parse_count(text, "the cache of gathered weights", Suffixes::binary)};
  CacheBudget budget{.bytes = kAnyBytes};
  const std::string_view number = trimmed(text.substr(0, text.size() - kLayers.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), budget.layers);
  AXONN_CHECK(
      error == std::errc() && end == number.data() + number.size() && budget.layers >= 0, "overlap.overlap_policy",
      "the cache of gathered weights must be bytes such as 512M, or a count such as '8 layers', got '", text, "'");
  return budget;
}

std::string to_string(const CacheBudget& budget) {
  return budget.bytes == kAnyBytes ? std::to_string(budget.layers) + " layers" : binary_count_text(budget.bytes);
}

int64_t bucket_elements(const OverlapPolicy& policy, int64_t elements, int64_t element_bytes) {
  if (!policy.switches.buckets) return std::max<int64_t>(elements, 1);
  return std::min(policy.bucket_bytes / element_bytes, std::max(kSmallBucket, elements / kLeastBuckets));
}

}  // namespace axonn
