#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Hash tables of BPE: what each word and each merge looks up.
namespace axonn {

uint64_t word_hash(std::string_view word);

// The tokens that a word can consist of, by their bytes.
class PieceTable {
 public:
  // The bytes, less than 4 GiB in all, are copied. Of pieces with the same bytes, the last counts.
  explicit PieceTable(const std::vector<std::pair<std::string, int32_t>>& pieces);

  // The token; -1: none. `hash` is word_hash(word).
  int32_t find(std::string_view word, uint64_t hash) const {
    for (size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
      const Slot& one = slots_[slot];
      if (one.token < 0) return -1;
      if (one.tag == static_cast<uint32_t>(hash >> 32) && word == std::string_view(bytes_).substr(one.begin, one.size))
        return one.token;
    }
  }
  int32_t find(std::string_view word) const { return find(word, word_hash(word)); }

 private:
  struct Slot {
    uint32_t begin = 0, size = 0;  // in bytes_
    uint32_t tag = 0;
    int32_t token = -1;
  };

  std::string bytes_;
  std::vector<Slot> slots_;
  size_t mask_;
};

// Two neighbours that become one token. Of all merges that a word allows, the one with the smallest
// rank is next; of those with the same rank, the leftmost.
struct Merge {
  int32_t left, right, token;
  uint32_t rank;
};

// The token that a pair becomes.
struct Merged {
  uint32_t rank = kNever;
  int32_t token = -1;

  static constexpr uint32_t kNever = ~uint32_t{0};
};

class MergeTable {
 public:
  // Of merges of the same pair, the last counts.
  explicit MergeTable(const std::vector<Merge>& merges);

  Merged find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      const Slot& one = slots_[slot];
      if (one.key == key) return one.merged;
      if (one.key == kEmpty) return {};
    }
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merged merged;
  };

  static constexpr uint64_t kEmpty = ~uint64_t{0};  // tokens are not negative
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15 >> shift_); }

  std::vector<Slot> slots_;
  size_t mask_;
  int shift_;
};

}  // namespace axonn
