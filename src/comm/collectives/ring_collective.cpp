#include "comm/collectives/ring_collective.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "comm/host/buffer_pool.hpp"

namespace axonn {
RingCollective::RingCollective(Call call, CollectivePlan plan)
    : QueuedOperation(std::move(call)),
      plan_(std::move(plan)),
      first_round_(plan_.reduces ? 0 : size() - 1),
      last_round_(plan_.gathers ? 2 * size() - 3 : size() - 2),
      chunk_elements_(production() ? production()->parts().message_elements()
                                   : RingSegments::elements(
                                         plan_.layout.largest_count(), plan_.widest(), plan_.chunk_unit(),
                                         plan_.segment_bytes > 0 ? plan_.segment_bytes : RingSegments::kLargestBytes)),
      depth_(production() ? static_cast<int>(std::max<int64_t>(production()->parts().depth(), 1)) : kDepth),
      groups_(production()
                  ? production()->parts().ranges()
                  : (plan_.layout.largest_count() + kDepth * chunk_elements_ - 1) / (kDepth * chunk_elements_)),
      next_((index() + 1) % size()),
      previous_((index() + size() - 1) % size()),
      slots_(2 * static_cast<size_t>(depth_)),
      packed_(slots_.size()),
      leaving_(slots_.size()) {}

void RingCollective::release() {
  plan_.release();
  const auto bytes = static_cast<size_t>(chunk_elements_ * plan_.widest());
  for (auto* slots : {&slots_, &packed_})
    for (Slot& slot : *slots)
      if (slot.staging != nullptr) pool().put(std::exchange(slot.staging, nullptr), bytes);
}

RingCollective::Chunk RingCollective::chunk(const Cursor& cursor, int owner) const {
  owner = (owner % size() + size()) % size();
  const Range group = group_range(cursor.group);
  const int64_t begin = group.begin + cursor.chunk * chunk_elements_;
  return {owner, begin, std::min(chunk_elements_, std::min(group.end, plan_.layout.count(owner)) - begin)};
}

// Among an owner's elements.
Range RingCollective::group_range(int64_t group) const {
  if (production()) return production()->parts().range(group);
  return {group * kDepth * chunk_elements_, (group + 1) * kDepth * chunk_elements_};
}

void RingCollective::settle(Cursor& cursor, bool sending) const {
  while (!ended(cursor) && (cursor.chunk == depth_ || (sending ? sent(cursor) : received(cursor)).count <= 0)) {
    cursor.chunk = 0;
    if (++cursor.round > last_round_) {
      cursor.round = first_round_;
      ++cursor.group;
    }
  }
}

// Moves on to the next message that carries this rank's own elements.
void RingCollective::settle_on_own(Cursor& cursor) const {
  while (!ended(cursor) && cursor.round != first_round_) step(cursor, true);
}

void RingCollective::step(Cursor& cursor, bool sending) const {
  ++cursor.chunk;
  settle(cursor, sending);
}

void RingCollective::begin() {
  begun_ = true;
  if (!plan_.reduces && !plan_.epilogue) plan_.place_own_part(index());
  to_post_.round = to_take_.round = to_send_.round = first_round_;
  settle(to_post_, false);
  settle(to_take_, false);
  settle(to_send_, true);
  to_compute_ = to_send_;
  settle_on_own(to_compute_);
}

QueuedOperation::Progress RingCollective::poll(Transport& transport) {
  if (!begun_) begin();
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
    const bool direct = gathering && plan_.contiguous(chunk.owner, chunk.begin, chunk.count, place);
    slot.data = direct ? plan_.out(place) : staging(slot);
    slot.cursor = to_post_;
    slot.ticket = receive(transport, previous_, slot.data, message_bytes(to_post_, chunk));
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
  const int64_t oldest = retired_ < sent_  ? leaving_[wrapped(retired_)].order
                         : ended(to_send_) ? std::numeric_limits<int64_t>::max()
                                           : order(to_send_);
  return order({cursor.group, first_round_, cursor.chunk}) < oldest;
}

// Takes one message per call, or computes on a part of one, so that work of higher priority can
// come in between.
bool RingCollective::take_arrivals(Transport& transport) {
  if (taken_ == posted_) return false;
  Slot& slot = slot_of(taken_);
  if (slot.state == Slot::State::posted) {
    if (!transport.test(slot.ticket)) return false;
    slot.state = Slot::State::arrived;
  }
  const Chunk chunk = received(slot.cursor);
  const bool reducing = slot.cursor.round < size() - 1;
  if (reducing && !contributed(chunk)) return false;
  if (!reducing)
    deliver(slot, chunk);
  else if (!plan_.epilogue || chunk.owner != index())
    reduce(slot, chunk);
  else if (!compute(slot, chunk))
    return true;
  slot.state = slot.cursor.round < last_round_ ? Slot::State::ready : Slot::State::free;
  ++taken_;
  step(to_take_, false);
  return true;
}

bool RingCollective::post_sends(Transport& transport) {
  bool progressed = false, computed = false;
  while (!ended(to_send_) && sent_ - retired_ < static_cast<int64_t>(slots_.size())) {
    const Chunk chunk = sent(to_send_);
    const std::byte* data = nullptr;
    Slot* slot = nullptr;
    if (to_send_.round == first_round_) {
      if (computes_before_sending() && order(to_compute_) <= order(to_send_)) {
        if (std::exchange(computed, true)) break;
        compute_next();
        if (order(to_compute_) <= order(to_send_)) return true;
      }
      if (plan_.reduces && !contributed(chunk)) break;
      data = plan_.reduces ? first_contribution(chunk) : result(chunk);
    } else {
      const int64_t wanted = order(to_send_) - depth_;  // the same chunk, one round earlier
      const auto found = std::ranges::find_if(
          slots_, [&](const Slot& s) { return s.state == Slot::State::ready && order(s.cursor) == wanted; });
      if (found == slots_.end()) break;
      slot = &*found;
      slot->state = Slot::State::leaving;
      data = slot->data != nullptr ? slot->data : result(chunk);
    }
    leaving_[wrapped(sent_)] = {order(to_send_), send(transport, next_, data, message_bytes(to_send_, chunk)), slot};
    ++sent_;
    step(to_send_, true);
    progressed = true;
  }
  return progressed;
}

size_t RingCollective::message_bytes(const Cursor& cursor, const Chunk& chunk) const {
  return cursor.round < size() - 1 ? plan_.bytes(chunk.count) : plan_.bytes_of_results(chunk.count);
}

bool RingCollective::retire_sends(Transport& transport) {
  bool progressed = false;
  while (retired_ < sent_) {
    Departure& departure = leaving_[wrapped(retired_)];
    if (!transport.test(departure.ticket)) break;
    if (departure.slot != nullptr) departure.slot->state = Slot::State::free;
    ++retired_;
    progressed = true;
  }
  return progressed;
}

int RingCollective::waits_for() const { return job_rank(taken_ < posted_ ? previous_ : next_); }

}  // namespace axonn
