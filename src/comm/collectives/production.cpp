#include "axonn/comm/production.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "axonn/core/error.hpp"
#include "comm/collectives/block_layout.hpp"
#include "comm/collectives/ring_segments.hpp"

namespace axonn {

uint32_t ProducerCounter::claim(uint32_t parts) { return std::exchange(claimed_, claimed_ + parts); }

void ProducerCounter::release(uint32_t parts) {
  released_.store(released_.load(std::memory_order_relaxed) + parts, std::memory_order_release);
}

bool ProducerCounter::reached(uint32_t count) const {
  return static_cast<int32_t>(released_.load(std::memory_order_acquire) - count) >= 0;
}

ProducedParts::ProducedParts(const Group& group, int64_t elements, int64_t element_bytes,
                             std::span<const int64_t> ranges)
    : members_(group.size()), index_(group.index) {
  const int64_t least = ranges.empty() ? 0 : std::ranges::min(ranges);
  AXONN_CHECK(elements >= 0 && element_bytes > 0 && least > 0, "comm.produced_parts",
              "elements must not be negative, and the others positive; got ", elements, " elements of ", element_bytes,
              " bytes in ranges of ", least);
  const BlockLayout layout = BlockLayout::equal(members_, elements);
  for (int owner = 0; owner < members_; ++owner) begins_.push_back(layout.part_begin(owner));
  begins_.push_back(elements);
  const int64_t share = layout.largest_count();
  const int64_t smallest = RingSegments::kSmallestBytes / element_bytes;
  message_ = RingSegments::elements(std::min(std::ranges::max(ranges), share), element_bytes, 1);
  borders_.push_back(0);
  for (size_t i = 0; borders_.back() < share; ++i) {
    const int64_t wanted = std::max(smallest, ranges[std::min(i, ranges.size() - 1)]);
    const int64_t size = std::min(wanted, share - borders_.back());
    depth_ = std::max(depth_, (size + message_ - 1) / message_);
    if (borders_.back() + size < share) common_ = std::gcd(common_, size);
    borders_.push_back(borders_.back() + size);
  }
  if (common_ == 0) common_ = std::max<int64_t>(share, 1);
}

Range ProducedParts::range(int64_t number) const {
  return {borders_[static_cast<size_t>(number)], borders_[static_cast<size_t>(number) + 1]};
}

Range ProducedParts::operator[](int64_t number) const {
  const auto owner = static_cast<size_t>((index_ - 1 - number % members_ + members_) % members_);
  const Range among = range(number / members_);
  return {std::min(begins_[owner] + among.begin, begins_[owner + 1]),
          std::min(begins_[owner] + among.end, begins_[owner + 1])};
}

int64_t ProducedParts::last_part(int owner, int64_t begin, int64_t count) const {
  const auto after = std::ranges::upper_bound(borders_, begin + count - 1);
  return (after - borders_.begin() - 1) * members_ + (index_ - 1 - owner + 2 * members_) % members_;
}

Production::Production(std::shared_ptr<ProducerCounter> counter, ProducedParts parts)
    : parts_(std::move(parts)),
      counter_(std::move(counter)),
      given_up_(std::make_shared<std::atomic<bool>>(false)),
      first_(counter_->claim(static_cast<uint32_t>(parts_.size()))) {}

Production::~Production() {
  const int64_t missing = parts_.size() - released_;
  if (missing == 0) return;
  given_up_->store(true, std::memory_order_relaxed);
  counter_->release(static_cast<uint32_t>(missing));
}

void Production::release() {
  AXONN_ASSERT(released_ < parts_.size(), "a part is released once");
  ++released_;
  counter_->release();
}

Production::Reader::Reader(const Production& production)
    : parts_(production.parts_),
      counter_(production.counter_),
      given_up_(production.given_up_),
      first_(production.first_),
      producer_(std::this_thread::get_id()) {}

bool Production::Reader::ready(int owner, int64_t begin, int64_t count) const {
  if (count <= 0) return true;
  if (!counter_->reached(first_ + static_cast<uint32_t>(parts_.last_part(owner, begin, count)) + 1)) return false;
  if (given_up_->load(std::memory_order_relaxed))
    throw BackendError("comm.production",
                       "its producer gave up before all of its parts were written; its own error says why");
  return true;
}

void Production::Reader::check_waiter(std::string_view collective) const {
  AXONN_CHECK(complete() || producer_ != std::this_thread::get_id(), "comm.wait", collective,
              " waits for parts that this thread has not written yet; release every part of its production before the "
              "wait");
}

bool Production::Reader::complete() const { return counter_->reached(first_ + static_cast<uint32_t>(parts_.size())); }

}  // namespace axonn
