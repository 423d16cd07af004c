#include "comm/collectives/ring_collective.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "comm/host/buffer_pool.hpp"

namespace axonn {
namespace {

constexpr int64_t kSmallestSegmentBytes = 8 << 10;
// Below 64 KiB: MPI over TCP sends larger messages only after a handshake, which queues behind
// other data (0.6 of the bandwidth instead of 0.95).
constexpr int64_t kLargestSegmentBytes = 60 << 10;

// Depends only on values that all ranks know: both ends of a message must agree on its size.
int64_t elements_per_chunk(const CollectivePlan& plan, int depth) {
  const int64_t even = (plan.layout.largest_count() + depth - 1) / depth;
  return std::clamp(even, kSmallestSegmentBytes / plan.element_bytes, kLargestSegmentBytes / plan.element_bytes);
}

}  // namespace

RingCollective::RingCollective(Call call, CollectivePlan plan)
    : QueuedOperation(std::move(call)),
      plan_(std::move(plan)),
      first_round_(plan_.reduces ? 0 : size() - 1),
      last_round_(plan_.gathers ? 2 * size() - 3 : size() - 2),
      chunk_elements_(elements_per_chunk(plan_, kDepth)),
      groups_((plan_.layout.largest_count() + kDepth * chunk_elements_ - 1) / (kDepth * chunk_elements_)),
      next_((index() + 1) % size()),
      previous_((index() + size() - 1) % size()) {}

void RingCollective::release() {
  const size_t bytes = plan_.bytes(chunk_elements_);
  for (auto* slots : {&slots_, &packed_})
    for (Slot& slot : *slots)
      if (slot.staging != nullptr) pool().put(std::exchange(slot.staging, nullptr), bytes);
}

RingCollective::Chunk RingCollective::chunk(const Cursor& cursor, int owner) const {
  owner = (owner % size() + size()) % size();
  const int64_t begin = (cursor.group * kDepth + cursor.chunk) * chunk_elements_;
  return {owner, begin, std::min(chunk_elements_, plan_.layout.count(owner) - begin)};
}

void RingCollective::settle(Cursor& cursor, bool sending) const {
  while (!ended(cursor) && (cursor.chunk == kDepth || (sending ? sent(cursor) : received(cursor)).count <= 0)) {
    cursor.chunk = 0;
    if (++cursor.round > last_round_) {
      cursor.round = first_round_;
      ++cursor.group;
    }
  }
}

void RingCollective::step(Cursor& cursor, bool sending) const {
  ++cursor.chunk;
  settle(cursor, sending);
}

QueuedOperation::Progress RingCollective::poll(Transport& transport) {
  if (!begun_) {
    begun_ = true;
    if (!plan_.reduces) plan_.place_own_part(index());
    to_post_.round = to_take_.round = to_send_.round = first_round_;
    settle(to_post_, false);
    settle(to_take_, false);
    settle(to_send_, true);
  }
  bool progressed = retire_sends(transport);
  progressed |= post_receives(transport);
  progressed |= take_arrivals(transport);
  progressed |= post_sends(transport);
  if (ended(to_take_) && ended(to_send_) && retired_ == sent_) return Progress::finished;
  return progressed ? Progress::made : Progress::blocked;
}

bool RingCollective::post_receives(Transport& transport) {
  bool progressed = false;
  while (!ended(to_post_) && slot_of(posted_).state == Slot::State::free && may_overwrite(to_post_)) {
    Slot& slot = slot_of(posted_);
    const Chunk chunk = received(to_post_);
    int64_t place = 0;
    const bool gathering = to_post_.round >= size() - 1;
    const bool direct = gathering && plan_.layout.contiguous(chunk.owner, chunk.begin, chunk.count, place);
    slot.data = direct ? plan_.out(place) : staging(slot);
    slot.cursor = to_post_;
    slot.ticket = receive(transport, previous_, slot.data, plan_.bytes(chunk.count));
    slot.state = Slot::State::posted;
    ++posted_;
    step(to_post_, false);
    progressed = true;
  }
  return progressed;
}

// In an in-place all-reduce a finished chunk must not overwrite a first contribution that is still
// being sent.
bool RingCollective::may_overwrite(const Cursor& cursor) const {
  if (!plan_.reduces || cursor.round < size() - 1 || received(cursor).owner != previous_) return true;
  const int64_t oldest = retired_ < sent_  ? leaving_[static_cast<size_t>(retired_ % kSlots)].order
                         : ended(to_send_) ? std::numeric_limits<int64_t>::max()
                                           : order(to_send_);
  return order({cursor.group, first_round_, cursor.chunk}) < oldest;
}

// Takes one message per call, so that work of higher priority can come in between.
bool RingCollective::take_arrivals(Transport& transport) {
  if (taken_ == posted_) return false;
  Slot& slot = slot_of(taken_);
  if (!transport.test(slot.ticket)) return false;
  const Chunk chunk = received(slot.cursor);
  if (slot.cursor.round < size() - 1)
    reduce(slot, chunk);
  else
    deliver(slot, chunk);
  slot.state = slot.cursor.round < last_round_ ? Slot::State::ready : Slot::State::free;
  ++taken_;
  step(to_take_, false);
  return true;
}

void RingCollective::reduce(Slot& slot, const Chunk& chunk) {
  const bool complete = chunk.owner == index();
  int64_t place = 0;
  if (complete && plan_.layout.contiguous(chunk.owner, chunk.begin, chunk.count, place)) {
    plan_.kernel(plan_.out(place), slot.data, plan_.in(place), static_cast<size_t>(chunk.count));
    slot.data = plan_.out(place);
    return;
  }
  plan_.layout.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    std::byte* sum = slot.data + plan_.bytes(first);
    plan_.kernel(sum, sum, plan_.in(begin), static_cast<size_t>(count));
    if (complete) std::memcpy(plan_.out(begin), sum, plan_.bytes(count));
  });
}

void RingCollective::deliver(Slot& slot, const Chunk& chunk) {
  if (slot.data != slot.staging) return;  // it was received in its place
  plan_.layout.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    std::memcpy(plan_.out(begin), slot.data + plan_.bytes(first), plan_.bytes(count));
  });
}

bool RingCollective::post_sends(Transport& transport) {
  bool progressed = false;
  while (!ended(to_send_) && sent_ - retired_ < kSlots) {
    const Chunk chunk = sent(to_send_);
    const std::byte* data = nullptr;
    Slot* slot = nullptr;
    if (to_send_.round == first_round_) {
      data = first_contribution(chunk);
    } else {
      const int64_t wanted = order(to_send_) - kDepth;  // the same chunk, one round earlier
      const auto found = std::ranges::find_if(
          slots_, [&](const Slot& s) { return s.state == Slot::State::ready && order(s.cursor) == wanted; });
      if (found == slots_.end()) break;
      slot = &*found;
      slot->state = Slot::State::leaving;
      data = slot->data;
    }
    leaving_[static_cast<size_t>(sent_ % kSlots)] = {order(to_send_),
                                                     send(transport, next_, data, plan_.bytes(chunk.count)), slot};
    ++sent_;
    step(to_send_, true);
    progressed = true;
  }
  return progressed;
}

const std::byte* RingCollective::first_contribution(const Chunk& chunk) {
  const auto source = [&](int64_t place) { return plan_.reduces ? plan_.in(place) : plan_.out(place); };
  int64_t place = 0;
  if (plan_.layout.contiguous(chunk.owner, chunk.begin, chunk.count, place)) return source(place);
  std::byte* packed = staging(packed_[static_cast<size_t>(sent_ % kSlots)]);
  plan_.layout.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    std::memcpy(packed + plan_.bytes(first), source(begin), plan_.bytes(count));
  });
  return packed;
}

bool RingCollective::retire_sends(Transport& transport) {
  bool progressed = false;
  while (retired_ < sent_) {
    Departure& departure = leaving_[static_cast<size_t>(retired_ % kSlots)];
    if (!transport.test(departure.ticket)) break;
    if (departure.slot != nullptr) departure.slot->state = Slot::State::free;
    ++retired_;
    progressed = true;
  }
  return progressed;
}

std::byte* RingCollective::staging(Slot& slot) {
  if (slot.staging == nullptr) slot.staging = pool().take(plan_.bytes(chunk_elements_));
  return slot.staging;
}

int RingCollective::waits_for() const { return job_rank(taken_ < posted_ ? previous_ : next_); }

}  // namespace axonn
