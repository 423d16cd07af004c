// The part of the ring that adds, computes and copies the elements of a chunk. ring_collective.cpp
// moves the messages.
#include <algorithm>
#include <cstring>

#include "comm/collectives/ring_collective.hpp"
#include "comm/host/buffer_pool.hpp"

namespace axonn {

void RingCollective::reduce(Slot& slot, const Chunk& chunk) {
  const bool complete = chunk.owner == index();
  int64_t place = 0;
  if (complete && plan_.contiguous(chunk.owner, chunk.begin, chunk.count, place)) {
    plan_.kernel(plan_.out(place), slot.data, plan_.in(place), static_cast<size_t>(chunk.count));
    slot.data = plan_.out(place);
    return;
  }
  plan_.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    std::byte* sum = slot.data + plan_.bytes(first);
    plan_.kernel(sum, sum, plan_.in(begin), static_cast<size_t>(count));
    if (complete) std::memcpy(plan_.out(begin), sum, plan_.bytes(count));
  });
}

// Computes on a part of a chunk that this rank owns; returns whether it is finished.
bool RingCollective::compute(Slot& slot, const Chunk& chunk) {
  if (!compute_some(chunk, slot.data)) return false;
  int64_t place = 0;
  const bool in_place = plan_.gathers && plan_.contiguous(chunk.owner, chunk.begin, chunk.count, place);
  slot.data = in_place ? plan_.out(place) : nullptr;
  return true;
}

QueuedOperation::Ahead RingCollective::compute_ahead() {
  if (!computes_before_sending()) return Ahead::no;
  if (!begun_) begin();
  if (ended(to_compute_)) return Ahead::complete;
  compute_next();
  return Ahead::computed;
}

// Own chunks are computed in the order in which they are sent.
void RingCollective::compute_next() {
  if (!compute_some(sent(to_compute_), nullptr)) return;
  step(to_compute_, true);
  settle_on_own(to_compute_);
}

// Calls the epilogue for the next elements of a chunk, which first get this rank's contribution;
// `sums` holds those of the others. Returns whether these were the chunk's last.
bool RingCollective::compute_some(const Chunk& chunk, std::byte* sums) {
  const int64_t begin = computed_, count = std::min(plan_.block_elements(), chunk.count - begin);
  const auto compute_range = [&](int64_t place, int64_t first, int64_t length) {
    std::byte* const sum = plan_.reduces ? sums + plan_.bytes(begin + first) : nullptr;
    if (plan_.reduces) plan_.kernel(sum, sum, plan_.in(place), static_cast<size_t>(length));
    plan_.epilogue(place, length, sum, plan_.gathers ? plan_.out(place) : nullptr);
  };
  plan_.for_each_range(chunk.owner, chunk.begin + begin, count, compute_range);
  computed_ = begin + count < chunk.count ? begin + count : 0;
  return computed_ == 0;
}

void RingCollective::deliver(Slot& slot, const Chunk& chunk) {
  if (slot.data != slot.staging) return;  // it was received in its place
  plan_.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    std::memcpy(plan_.out(begin), slot.data + plan_.bytes_of_results(first), plan_.bytes_of_results(count));
  });
}

const std::byte* RingCollective::first_contribution(const Chunk& chunk) {
  return packed(chunk, plan_.element_bytes, [&](int64_t place) { return plan_.in(place); });
}

const std::byte* RingCollective::result(const Chunk& chunk) {
  return packed(chunk, plan_.result_bytes, [&](int64_t place) { return plan_.out(place); });
}

// The chunk of the next message, where it lies or as a copy.
template <typename Source>
const std::byte* RingCollective::packed(const Chunk& chunk, int64_t element_bytes, Source source) {
  int64_t place = 0;
  if (plan_.contiguous(chunk.owner, chunk.begin, chunk.count, place)) return source(place);
  std::byte* const copy = staging(packed_[wrapped(sent_)]);
  int64_t done = 0;
  const auto zeros_up_to = [&](int64_t end) {  // empty places
    std::memset(copy + done * element_bytes, 0, static_cast<size_t>((end - done) * element_bytes));
  };
  plan_.for_each_range(chunk.owner, chunk.begin, chunk.count, [&](int64_t begin, int64_t first, int64_t count) {
    zeros_up_to(first);
    std::memcpy(copy + first * element_bytes, source(begin), static_cast<size_t>(count * element_bytes));
    done = first + count;
  });
  zeros_up_to(chunk.count);
  return copy;
}

std::byte* RingCollective::staging(Slot& slot) {
  if (slot.staging == nullptr) slot.staging = pool().take(static_cast<size_t>(chunk_elements_ * plan_.widest()));
  return slot.staging;
}

}  // namespace axonn
