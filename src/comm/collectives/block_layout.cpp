#include "comm/collectives/block_layout.hpp"

namespace axonn {
namespace {

constexpr int64_t kBlock = BlockOwners::kBlock;

}  // namespace

BlockLayout BlockLayout::equal(int owners, int64_t elements) {
  BlockLayout layout;
  layout.owners_ = owners;
  layout.elements_ = elements;
  const int64_t share = elements / owners;
  const int64_t larger = elements % owners;
  for (int64_t owner = 0; owner <= owners; ++owner) layout.begins_.push_back(owner * share + std::min(owner, larger));
  return layout;
}

BlockLayout BlockLayout::parts(std::span<const int64_t> counts) {
  BlockLayout layout;
  layout.owners_ = static_cast<int>(counts.size());
  layout.begins_.push_back(0);
  for (const int64_t count : counts) layout.begins_.push_back(layout.begins_.back() + count);
  layout.elements_ = layout.begins_.back();
  return layout;
}

BlockLayout BlockLayout::one_owner(int owners, int owner, int64_t elements) {
  BlockLayout layout;
  layout.owners_ = owners;
  layout.elements_ = elements;
  for (int border = 0; border <= owners; ++border) layout.begins_.push_back(border <= owner ? 0 : elements);
  return layout;
}

BlockLayout BlockLayout::cyclic(int owners, int64_t elements, int64_t arena_offset) {
  BlockLayout layout;
  layout.owners_ = owners;
  layout.elements_ = elements;
  layout.arena_offset_ = arena_offset;
  return layout;
}

int64_t BlockLayout::count(int owner) const {
  if (arena_offset_ < 0) return begins_[owner + 1] - begins_[owner];
  return BlockOwners(owners_).count(owner, {arena_offset_, arena_offset_ + elements_});
}

int64_t BlockLayout::largest_count() const {
  int64_t largest = 0;
  for (int owner = 0; owner < owners_; ++owner) largest = std::max(largest, count(owner));
  return largest;
}

uint32_t BlockLayout::fingerprint() const {
  uint64_t mixed = static_cast<uint64_t>(arena_offset_);
  const auto mix = [&](int64_t value) {
    mixed = (mixed ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u, mixed ^= mixed >> 32;
  };
  mix(elements_);
  for (const int64_t begin : begins_) mix(begin);
  return static_cast<uint32_t>(mixed >> 32);
}

BlockLayout::PlacedRange BlockLayout::range_at(int owner, int64_t element) const {
  if (arena_offset_ < 0) return {begins_[owner] + element, begins_[owner + 1] - begins_[owner] - element};
  const int64_t first_block = arena_offset_ / kBlock;
  const int64_t to_owner = ((owner - first_block) % owners_ + owners_) % owners_;
  // Counts from the start of the owner's first block, which may begin before the buffer.
  const int64_t position = element + (to_owner == 0 ? arena_offset_ % kBlock : 0);
  const int64_t block = first_block + to_owner + position / kBlock * owners_;
  const int64_t within = position % kBlock;
  const int64_t place = block * kBlock + within - arena_offset_;
  return {place, std::min(kBlock - within, elements_ - place)};
}

bool BlockLayout::contiguous(int owner, int64_t begin, int64_t count, int64_t& place) const {
  const PlacedRange range = range_at(owner, begin);
  place = range.place;
  return range.length >= count;
}

}  // namespace axonn
