#include "comm/collectives/shared_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace axonn {
namespace {

constexpr int64_t kDepth = SharedWindow::kDepth;
constexpr size_t kLargestForEverybody = size_t{16} << 10;

using Counters = SharedWindow::Counters;

// Elements of an owner in a chunk. While a producer is at work, chunks do not cross parts, unless
// they would be less than half as large. One that crosses waits for the later part.
int64_t owned_elements(const CollectivePlan& plan, int64_t bytes, const std::optional<Production::Reader>& production) {
  const int64_t unit = plan.chunk_unit(), most = bytes / plan.widest() / unit * unit;
  if (!production) return most;
  const int64_t common = production->parts().common_elements(), fewest = (common + most - 1) / most;
  for (int64_t chunks = fewest; chunks <= 2 * fewest; ++chunks)
    if (common % chunks == 0 && 2 * (common / chunks) >= most) return common / chunks;
  return most;
}

}  // namespace

SharedCollective::SharedCollective(Call call, std::shared_ptr<SharedWindow> window, CollectivePlan plan, bool barrier)
    : QueuedOperation(std::move(call)),
      window_(std::move(window)),
      plan_(std::move(plan)),
      barrier_(barrier),
      everybody_reduces_(plan_.reduces && plan_.gathers && !plan_.epilogue &&
                         plan_.bytes(plan_.layout.elements()) <= kLargestForEverybody),
      owned_elements_(owned_elements(plan_, chunk_bytes(), everybody_reduces_ ? std::nullopt : production())),
      chunks_(barrier ? 1 : (plan_.layout.largest_count() + owned_elements_ - 1) / owned_elements_) {}

// Of an owner. Elements that everybody reduces are one chunk.
int64_t SharedCollective::chunk_bytes() const {
  const auto all = static_cast<int64_t>(window_->owned_bytes());
  return plan_.segment_bytes == 0 || everybody_reduces_ || production() ? all : std::min(all, plan_.segment_bytes);
}

void SharedCollective::release() { plan_.release(); }

bool SharedCollective::begin() {
  if (!window_->attached()) {
    behind_ = window_->missing_member();
    return false;
  }
  first_ = window_->claim(chunks_);
  return begun_ = true;
}

// Does at most one step of each kind, so that work of higher priority can come in between. Steps
// that others may wait for come first.
QueuedOperation::Progress SharedCollective::poll(Transport&) {
  if (!begun_ && !begin()) return Progress::blocked;
  behind_ = -1;
  bool progressed = reduced_ < contributed_ && reduce();
  progressed |= delivered_ < reduced_ && deliver();
  progressed |= contributed_ < chunks_ && contribute();
  if (delivered_ == chunks_) return Progress::finished;
  return progressed ? Progress::made : Progress::blocked;
}

bool SharedCollective::contributions_written() const {
  if (!production() || !plan_.reduces) return true;
  for (int owner = 0; owner < size(); ++owner) {
    const OwnedRange mine = owned_range(owner, contributed_);
    if ((owner != index() || everybody_reduces_) && !written(owner, mine.begin, mine.count)) return false;
  }
  return true;
}

bool SharedCollective::contribute() {
  if (!contributions_written()) return false;
  const int64_t chunk = first_ + contributed_;
  const int reader = window_->behind(&Counters::delivered, chunk - kDepth + 1);  // the slots' last ones
  if (reader >= 0) return stays_behind(reader, /*has_result=*/false);
  window_->sign(chunk, signature());
  if (plan_.reduces) write_contributions(window_->own_contributions(chunk));
  window_->own().contributed.store(chunk + 1, std::memory_order_release);
  ++contributed_;
  return true;
}

void SharedCollective::write_contributions(std::byte* slot) {
  if (everybody_reduces_) {
    const size_t bytes = plan_.bytes(plan_.layout.elements());
    std::memcpy(slot, plan_.input, bytes);
    count_sent(bytes * static_cast<size_t>(size() - 1));
    return;
  }
  for (int owner = 0; owner < size(); ++owner) {
    if (owner == index()) continue;
    const OwnedRange mine = owned_range(owner, contributed_);
    put(owner, mine, slot + window_->owned_bytes() * static_cast<size_t>(owner));
    count_sent(plan_.bytes(mine.count));
  }
}

bool SharedCollective::reduce() {
  const int64_t chunk = first_ + reduced_;
  const OwnedRange own = owned_range(index(), reduced_);
  const bool needs_all = barrier_ || everybody_reduces_ || (plan_.reduces && own.count > 0);
  const int missing = needs_all ? window_->behind(&Counters::contributed, chunk + 1) : -1;
  if (missing >= 0) return stays_behind(missing, /*has_result=*/false);
  if (plan_.reduces && !written(index(), own.begin, own.count)) return false;
  for (int member = 0; member < size() && needs_all; ++member)
    if (!agrees(member, chunk)) return false;
  if (everybody_reduces_) {
    for (int owner = 0; owner < size(); ++owner) reduce_owned(owner, owned_range(owner, 0));
  } else if (own.count > 0) {
    if (plan_.epilogue) {
      if (!compute_some(own)) return true;
    } else if (plan_.reduces) {
      reduce_owned(index(), own);
    } else {
      give(own, window_->own_result(chunk));
    }
    if (plan_.gathers) count_sent(plan_.bytes_of_results(own.count) * static_cast<size_t>(size() - 1));
  }
  window_->own().reduced.store(chunk + 1, std::memory_order_release);
  ++reduced_;
  return true;
}

bool SharedCollective::deliver() {
  const int64_t chunk = first_ + delivered_;
  if (plan_.gathers && !everybody_reduces_) {
    for (int distance = 1; distance < size(); ++distance) {
      const int owner = (index() + distance) % size();
      if (owned_range(owner, delivered_).count > 0 &&
          window_->of(owner).reduced.load(std::memory_order_acquire) <= chunk)
        return stays_behind(owner, /*has_result=*/true);
    }
    for (int distance = 1; distance < size(); ++distance) {
      const int owner = (index() + distance) % size();
      const OwnedRange theirs = owned_range(owner, delivered_);
      if (theirs.count > 0 && !agrees(owner, chunk)) return false;
      const std::byte* result = window_->result(owner, chunk);
      plan_.for_each_range(owner, theirs.begin, theirs.count, [&](int64_t place, int64_t first, int64_t count) {
        std::memcpy(plan_.out(place), result + plan_.bytes_of_results(first), plan_.bytes_of_results(count));
      });
    }
  }
  window_->own().delivered.store(chunk + 1, std::memory_order_release);
  ++delivered_;
  return true;
}

bool SharedCollective::agrees(int member, int64_t chunk) {
  return window_->signature(member, chunk) == signature() || stays_behind(member, /*has_result=*/false);
}

// Notes what keeps this rank from going on: the first in a poll.
bool SharedCollective::stays_behind(int member, bool has_result) {
  if (behind_ >= 0 || member == index()) return false;
  behind_ = member;
  waits_for_result_ = has_result;
  return false;
}

SharedCollective::OwnedRange SharedCollective::owned_range(int owner, int64_t chunk) const {
  const int64_t begin = chunk * owned_elements_;
  return {begin, std::clamp<int64_t>(plan_.layout.count(owner) - begin, 0, owned_elements_)};
}

void SharedCollective::put(int owner, OwnedRange owned, std::byte* slot) {
  plan_.for_each_range(owner, owned.begin, owned.count, [&](int64_t place, int64_t first, int64_t count) {
    std::memcpy(slot + plan_.bytes(first), plan_.in(place), plan_.bytes(count));
  });
}

// Copies to the slot for the others, and to this rank's output while the data are in the cache.
void SharedCollective::give(OwnedRange owned, std::byte* slot) {
  plan_.for_each_range(index(), owned.begin, owned.count, [&](int64_t place, int64_t first, int64_t count) {
    std::memcpy(slot + plan_.bytes(first), plan_.in(place), plan_.bytes(count));
    if (plan_.in(place) != plan_.out(place)) std::memcpy(plan_.out(place), plan_.in(place), plan_.bytes(count));
  });
}

// Results are written to the output, and copied to the result slot while they are in the cache: the
// slot's lines are in another core's cache, and a copy takes them over sooner than single stores.
void SharedCollective::reduce_owned(int owner, OwnedRange owned) {
  const bool publish = plan_.gathers && !everybody_reduces_;
  std::byte* const slot = window_->own_result(first_ + reduced_);
  const int64_t block = plan_.block_elements();
  alignas(64) std::byte sums[CollectivePlan::kBlockBytes];
  const auto reduce_range = [&](int64_t range_begin, int64_t range_first, int64_t range_count) {
    for (int64_t done = 0; done < range_count; done += block) {
      const int64_t place = range_begin + done, first = range_first + done, count = std::min(block, range_count - done);
      add_up(owner, place, first, count, sums, plan_.out(place));
      if (publish) std::memcpy(slot + plan_.bytes(first), plan_.out(place), plan_.bytes(count));
    }
  };
  plan_.for_each_range(owner, owned.begin, owned.count, reduce_range);
}

// Calls the epilogue for the next block of this rank's elements, and publishes what it wrote as
// reduce_owned() does. Returns whether these were the chunk's last.
bool SharedCollective::compute_some(OwnedRange own) {
  const int64_t begin = computed_, count = std::min(plan_.block_elements(), own.count - begin);
  std::byte* const slot = window_->own_result(first_ + reduced_);
  alignas(64) std::byte sums[CollectivePlan::kBlockBytes];
  const auto compute_range = [&](int64_t place, int64_t range_first, int64_t length) {
    const int64_t first = begin + range_first;
    std::byte* const result = plan_.gathers ? plan_.out(place) : nullptr;
    if (plan_.reduces) add_up(index(), place, first, length, sums, sums);
    plan_.epilogue(place, length, plan_.reduces ? sums : nullptr, result);
    if (plan_.gathers) std::memcpy(slot + plan_.bytes_of_results(first), result, plan_.bytes_of_results(length));
  };
  plan_.for_each_range(index(), own.begin + begin, count, compute_range);
  computed_ = begin + count < own.count ? begin + count : 0;
  return computed_ == 0;
}

// `first` is the place among the owner's elements of the chunk.
const std::byte* SharedCollective::contribution(int member, int owner, int64_t place, int64_t first) const {
  if (member == index()) return plan_.in(place);
  const std::byte* const slot = window_->contributions(member, first_ + reduced_);
  return everybody_reduces_ ? slot + plan_.bytes(place)
                            : slot + window_->owned_bytes() * static_cast<size_t>(owner) + plan_.bytes(first);
}

// Adds the contributions in chain order. `result` may be this rank's contribution, so that only the
// last addition writes to it, the others to `partial`.
void SharedCollective::add_up(int owner, int64_t place, int64_t first, int64_t count, std::byte* partial,
                              std::byte* result) {
  const std::byte* sum = contribution((owner + 1) % size(), owner, place, first);
  for (int hop = 2; hop <= size(); ++hop) {
    std::byte* const into = hop == size() ? result : partial;
    plan_.kernel(into, sum, contribution((owner + hop) % size(), owner, place, first), static_cast<size_t>(count));
    sum = into;
  }
}

int SharedCollective::waits_for() const { return behind_ < 0 ? -1 : job_rank(behind_); }

}  // namespace axonn
