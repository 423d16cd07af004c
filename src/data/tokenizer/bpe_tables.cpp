#include "data/tokenizer/bpe_tables.hpp"

#include <bit>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

namespace axonn {
namespace {

// Slots for `count` entries, of which at most half are filled.
size_t slots_for(size_t count) { return std::bit_ceil(2 * count + 2); }

}  // namespace

uint64_t word_hash(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

PieceTable::PieceTable(const std::vector<std::pair<std::string, int32_t>>& pieces)
    : slots_(slots_for(pieces.size())), mask_(slots_.size() - 1) {
  for (const auto& [bytes, token] : pieces) {
    const uint64_t hash = word_hash(bytes);
    size_t slot = hash & mask_;
    const auto holds_other = [&](const Slot& one) {
      return one.token >= 0 && std::string_view(bytes_).substr(one.begin, one.size) != bytes;
    };
    while (holds_other(slots_[slot])) slot = (slot + 1) & mask_;
    slots_[slot] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(bytes.size()),
                    static_cast<uint32_t>(hash >> 32), token};
    bytes_ += bytes;
  }
}

MergeTable::MergeTable(const std::vector<Merge>& merges)
    : slots_(slots_for(merges.size())), mask_(slots_.size() - 1), shift_(64 - std::countr_zero(slots_.size())) {
  for (const Merge& merge : merges) {
    const uint64_t key = key_of(merge.left, merge.right);
    size_t slot = slot_of(key);
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
    slots_[slot] = {key, {merge.rank, merge.token}};
  }
}

}  // namespace axonn
