#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "axonn/data/tokens/blend.hpp"
#include "axonn/data/tokens/token_data.hpp"

namespace axonn {

// The training samples of TokenData by number: windows of `sequence` + 1 neighbouring tokens. A
// sample follows from the data, the sequence, the seed and its number, so every grid, batch size
// and resumed run sees the same ones. One thread at a time.
//
// epochs: the windows of a source lie one after the other, with one token in common, which is the
// last target of one and the first id of the next. Tokens that are too few for a window are left
// over, and divided between the beginning and the end anew in each epoch. An epoch takes every
// window of a part once, in the order of a permutation that follows from (seed, part, epoch). Of
// several parts, each sample is from the one that Blend names, and every part has its own epochs.
//
// drawn: the start is uniform in [0, tokens - sequence - 1).
class TokenWindows {
 public:
  // `data` outlives the windows. UserError if a part has no window.
  TokenWindows(const TokenData& data, int64_t sequence, uint64_t seed);

  // Windows of an epoch, or nothing if several parts have their own or samples are drawn.
  std::optional<int64_t> epoch() const;

  struct Place {
    size_t part = 0, range = 0;
    int64_t begin = 0;  // a number of the source's tokens
    int64_t epoch = 0;  // the part's; 0 if drawn
  };
  Place place(int64_t number);
  // ids = tokens [begin, begin + sequence) of the place, targets = [begin + 1, begin + sequence +
  // 1). UserError for an id of a shard beyond the vocabulary.
  void read(int64_t number, std::span<int64_t> ids, std::span<int64_t> targets);

  // Windows of what is held out, one after the other: (tokens - 1) / sequence of each range.
  int64_t validation_windows() const;
  void read_validation(int64_t index, std::span<int64_t> ids, std::span<int64_t> targets);

 private:
  Place drawn(int64_t number) const;
  void copy(const TokenSource& source, int64_t begin, std::span<int64_t> ids, std::span<int64_t> targets);

  const TokenData& data_;
  int64_t sequence_;
  uint64_t seed_;
  std::vector<std::vector<int64_t>> ends_;  // for each part, windows up to and with each range
  std::vector<int64_t> validation_ends_;
  Blend blend_;
  std::vector<int64_t> window_;  // the tokens of one
};

}  // namespace axonn
