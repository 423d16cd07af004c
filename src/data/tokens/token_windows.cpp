#include "axonn/data/tokens/token_windows.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "data/tokens/keyed_permutation.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.windows";

int64_t windows_of(const TokenData::Range& range, int64_t sequence) {
  return std::max<int64_t>(0, (range.tokens() - 1) / sequence);
}

// The number of windows up to and with each range.
std::vector<int64_t> ends_of(const std::vector<TokenData::Range>& ranges, int64_t sequence) {
  std::vector<int64_t> ends;
  for (const TokenData::Range& range : ranges)
    ends.push_back((ends.empty() ? 0 : ends.back()) + windows_of(range, sequence));
  return ends;
}

// The range of a window, and its number there.
struct InRange {
  size_t range = 0;
  int64_t window = 0;
};

InRange in_range(const std::vector<int64_t>& ends, int64_t window) {
  const auto range = static_cast<size_t>(std::ranges::upper_bound(ends, window) - ends.begin());
  return {.range = range, .window = range == 0 ? window : window - ends[range - 1]};
}

std::vector<int64_t> weights_of(const TokenData& data) {
  std::vector<int64_t> weights;
  for (const TokenData::Part& part : data.parts()) weights.push_back(part.weight);
  return weights;
}

uint32_t stream_of(const char* purpose, size_t part) { return philox_stream(purpose, std::to_string(part)); }

// 64 random bits as a number below `bound`.
int64_t below(const std::array<uint32_t, 4>& words, int64_t bound) {
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<int64_t>(static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(bound) >> 64);
}

}  // namespace

TokenWindows::TokenWindows(const TokenData& data, int64_t sequence, uint64_t seed)
    : data_(data), sequence_(sequence), seed_(seed), blend_(weights_of(data)) {
  AXONN_CHECK(sequence >= 1, kWhere, "a sequence has at least 1 token, got ", sequence);
  for (const TokenData::Part& part : data.parts()) {
    ends_.push_back(ends_of(part.ranges, sequence));
    if (ends_.back().back() > 0) continue;
    const auto longest = std::ranges::max_element(part.ranges, {}, &TokenData::Range::tokens);
    throw UserError(
        kWhere, detail::concatenate(longest->source.name(), " has ", longest->tokens(),
                                    " tokens to train on, a sequence of ", sequence, " needs at least ", sequence + 1));
  }
  validation_ends_ = ends_of(data.held_out(), sequence);
  window_.resize(static_cast<size_t>(sequence) + 1);
}

std::optional<int64_t> TokenWindows::epoch() const {
  if (ends_.size() > 1 || data_.order() == SampleOrder::drawn) return std::nullopt;
  return ends_.front().back();
}

TokenWindows::Place TokenWindows::drawn(int64_t number) const {
  const int64_t starts = std::max<int64_t>(1, data_.train_tokens() - sequence_ - 1);
  return {.begin = below(philox(seed_, static_cast<uint64_t>(number), 0, philox_stream("sample", "")), starts)};
}

TokenWindows::Place TokenWindows::place(int64_t number) {
  if (data_.order() == SampleOrder::drawn) return drawn(number);
  const Blend::Place from = blend_.at(number);
  const std::vector<int64_t>& ends = ends_[from.source];
  const int64_t windows = ends.back(), epoch = from.number / windows;
  const KeyedPermutation permutation(
      static_cast<uint64_t>(windows),
      {.seed = seed_, .epoch = static_cast<uint32_t>(epoch), .stream = stream_of("order", from.source)});
  const auto at = in_range(ends, static_cast<int64_t>(permutation(static_cast<uint64_t>(from.number % windows))));
  const TokenData::Range& range = data_.parts()[from.source].ranges[at.range];
  const int64_t left_over = (range.tokens() - 1) % sequence_;
  const auto words = philox(seed_, at.range, static_cast<uint32_t>(epoch), stream_of("offset", from.source));
  return {.part = from.source,
          .range = at.range,
          .begin = range.begin + below(words, left_over + 1) + at.window * sequence_,
          .epoch = epoch};
}

void TokenWindows::copy(const TokenSource& source, int64_t begin, std::span<int64_t> ids, std::span<int64_t> targets) {
  AXONN_CHECK(std::ssize(ids) == sequence_ && std::ssize(targets) == sequence_, kWhere,
              "ids and targets have the size of a sequence, ", sequence_, ", got ", ids.size(), " and ",
              targets.size());
  source.read(begin, window_);
  std::copy_n(window_.begin(), ids.size(), ids.begin());
  std::copy_n(window_.begin() + 1, targets.size(), targets.begin());
}

void TokenWindows::read(int64_t number, std::span<int64_t> ids, std::span<int64_t> targets) {
  const Place at = place(number);
  copy(data_.parts()[at.part].ranges[at.range].source, at.begin, ids, targets);
}

int64_t TokenWindows::validation_windows() const { return validation_ends_.empty() ? 0 : validation_ends_.back(); }

void TokenWindows::read_validation(int64_t index, std::span<int64_t> ids, std::span<int64_t> targets) {
  AXONN_CHECK(index >= 0 && index < validation_windows(), kWhere, "the held-out part has ", validation_windows(),
              " windows of ", sequence_, " tokens, asked for number ", index);
  const InRange at = in_range(validation_ends_, index);
  const TokenData::Range& range = data_.held_out()[at.range];
  copy(range.source, range.begin + at.window * sequence_, ids, targets);
}

}  // namespace axonn
