#include "axonn/data/tokens/blend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

using Wide = __int128;  // products of weights and numbers of samples

constexpr int kDigits = 9;  // before and after the point of a weight

}  // namespace

Blend::Blend(std::vector<int64_t> weights) : weights_(std::move(weights)), given_(weights_.size(), 0) {
  int64_t common = 0;
  for (const int64_t weight : weights_) {
    AXONN_CHECK(weight >= 1, "data.blend", "a weight must be above 0, got ", weight);
    common = std::gcd(common, weight);
  }
  AXONN_CHECK(!weights_.empty(), "data.blend", "a blend needs sources");
  for (int64_t& weight : weights_) {
    weight /= common;
    AXONN_CHECK(weight < (int64_t{1} << 62) - period_, "data.blend", "the sum of the weights needs more than 62 bits");
    period_ += weight;
  }
}

// Source i is behind its share if given < weight / period * (done + 1), and its next sample is due
// before sample number ceil((given + 1) * period / weight).
size_t Blend::next() {
  size_t best = weights_.size();
  Wide least = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (Wide{given_[i]} * period_ >= Wide{weights_[i]} * (done_ + 1)) continue;
    const Wide due = ((Wide{given_[i]} + 1) * period_ + weights_[i] - 1) / weights_[i];
    if (best < weights_.size() && due >= least) continue;
    best = i;
    least = due;
  }
  AXONN_ASSERT(best < weights_.size(), "no source is behind its share after ", done_, " samples");
  return best;
}

Blend::Place Blend::at(int64_t number) {
  AXONN_CHECK(number >= 0, "data.blend", "samples are counted from 0, got ", number, "; give its number");
  const int64_t periods = number / period_, within = number % period_;
  if (within + 1 < done_) {
    std::ranges::fill(given_, 0);
    done_ = 0;
  }
  while (done_ <= within) {
    last_ = next();
    ++given_[last_];
    ++done_;
  }
  return {.source = last_, .number = periods * weights_[last_] + given_[last_] - 1};
}

int64_t parse_weight(std::string_view text, std::string_view what) {
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = point == std::string_view::npos ? "" : text.substr(point + 1);
  const auto digits = [](std::string_view word) {
    return std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  };
  int64_t value = 0;
  const bool fits = digits(whole) && digits(part) && whole.size() <= kDigits && part.size() <= kDigits;
  for (const char c : fits ? whole : "") value = value * 10 + (c - '0');
  for (size_t i = 0; fits && i < kDigits; ++i) value = value * 10 + (i < part.size() ? part[i] - '0' : 0);
  AXONN_CHECK(value > 0, "data.blend", what, " must be a decimal number above 0 such as 0.7, with at most ", kDigits,
              " digits before and after the point, got '", text, "'");
  return value;
}

}  // namespace axonn
