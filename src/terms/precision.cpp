#include "axonn/terms/precision.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"bf16", "fp16", "fp32", "fp64"};

}  // namespace

std::string_view to_string(Precision precision) { return kNames.at(static_cast<size_t>(precision)); }

Precision parse_precision(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  AXONN_CHECK(found != kNames.end(), "terms.precision", "a precision is one of bf16, fp16, fp32, fp64, got '", name, "'",
              did_you_mean(name, std::span<const std::string_view>(kNames)));
  return static_cast<Precision>(found - kNames.begin());
}

int64_t element_bytes(Precision precision) {
  constexpr std::array<int64_t, 4> kBytes = {2, 2, 4, 8};
  return kBytes.at(static_cast<size_t>(precision));
}

int64_t state_bytes(Precision precision) { return precision == Precision::fp64 ? 8 : 4; }

}  // namespace axonn
