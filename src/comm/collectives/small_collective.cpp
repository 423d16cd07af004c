#include "comm/collectives/small_collective.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "comm/host/buffer_pool.hpp"

namespace axonn {
namespace {

// Larger buffers go around the ring, except gathers of small parts: the ring would take n - 1 hops.
constexpr size_t kMostBytes = size_t{16} << 10;
constexpr size_t kMostPart = size_t{1} << 10;
// Over all members, 64 bytes of a sum still go this way among 65536, and 256 of a gather.
constexpr size_t kMostGatheredBytes = size_t{4} << 20;
constexpr size_t kMostGatherBytes = size_t{16} << 20;
// If only owners need the sums, most of what is gathered is for nothing.
constexpr size_t kMostGatheredForOwners = size_t{4} << 10;

bool gathers_small_parts(const CollectivePlan& plan, size_t bytes) {
  const auto owners = static_cast<size_t>(plan.layout.owners());
  if (bytes > std::min(kMostGatherBytes, kMostPart * owners)) return false;
  for (int owner = 0; owner < plan.layout.owners(); ++owner)
    if (plan.bytes(plan.layout.count(owner)) > kMostPart) return false;
  return true;
}

}  // namespace

bool SmallCollective::to_owners(const CollectivePlan& plan) {
  return plan.reduces && !plan.gathers && plan.layout.owners() <= kRadix;
}

bool SmallCollective::allows(const CollectivePlan& plan) {
  const size_t bytes = plan.bytes(plan.layout.elements());
  if (to_owners(plan)) return bytes <= kMostBytes;
  if (!plan.reduces) return bytes <= kMostBytes || gathers_small_parts(plan, bytes);
  const size_t gathered = bytes * static_cast<size_t>(plan.layout.owners());
  return bytes <= kMostBytes && gathered <= (plan.gathers ? kMostGatheredBytes : kMostGatheredForOwners);
}

SmallCollective::SmallCollective(Call call, CollectivePlan plan)
    : QueuedOperation(std::move(call)), plan_(std::move(plan)), whole_(plan_.bytes(plan_.layout.elements())) {
  if (plan_.reduces) return;
  begins_.push_back(0);
  for (int distance = 0; distance < size(); ++distance)
    begins_.push_back(begins_.back() + plan_.bytes(plan_.layout.count(member_after(distance))));
}

size_t SmallCollective::begin_of(int distance) const {
  if (to_owners(plan_)) return plan_.bytes(plan_.layout.count(index())) * static_cast<size_t>(distance);
  return plan_.reduces ? whole_ * static_cast<size_t>(distance) : begins_[static_cast<size_t>(distance)];
}

void SmallCollective::release() {
  if (staging_ != nullptr) pool().put(std::exchange(staging_, nullptr), begin_of(size()) + whole_);
}

void SmallCollective::begin() {
  distance_ = 1;
  if (whole_ == 0) return;
  staging_ = pool().take(begin_of(size()) + whole_);
  const bool all = plan_.reduces && !to_owners(plan_);
  const std::byte* own = all ? plan_.input : plan_.in(plan_.layout.part_begin(index()));
  if (begin_of(1) > 0) std::memcpy(staging_, own, begin_of(1));
}

void SmallCollective::post_round(Transport& transport) {
  messages_ = {};
  for (int i = 0; i < kRadix - 1; ++i) {
    const int distance = (i + 1) * distance_, count = std::min(distance_, size() - distance);
    if (count <= 0) return;
    Message& arriving = messages_[static_cast<size_t>(i)];
    arriving = {.member = member_after(distance), .bytes = begin_of(distance + count) - begin_of(distance)};
    if (arriving.bytes > 0)
      arriving.ticket = receive(transport, arriving.member, staging_ + begin_of(distance), arriving.bytes);
    Message& leaving = messages_[static_cast<size_t>(kRadix - 1 + i)];
    leaving = {.member = member_after(size() - distance), .bytes = begin_of(count)};
    const std::byte* data = staging_;
    if (to_owners(plan_)) {
      leaving.bytes = plan_.bytes(plan_.layout.count(leaving.member));
      data = plan_.in(plan_.layout.part_begin(leaving.member));
    }
    if (leaving.bytes > 0) leaving.ticket = send(transport, leaving.member, data, leaving.bytes);
  }
}

bool SmallCollective::finish_round(Transport& transport) {
  bool finished = true;
  for (Message& message : messages_) {
    if (message.bytes > 0 && transport.test(message.ticket)) message.bytes = 0;
    finished &= message.bytes == 0;
  }
  return finished;
}

QueuedOperation::Progress SmallCollective::poll(Transport& transport) {
  bool progressed = false;
  if (distance_ == 0) {
    begin();
    post_round(transport);
    progressed = true;
  }
  while (distance_ < size()) {
    if (!finish_round(transport)) return progressed ? Progress::made : Progress::blocked;
    distance_ *= kRadix;
    if (distance_ < size()) post_round(transport);
    progressed = true;
  }
  if (!plan_.reduces) place_parts();
  for (int owner = 0; owner < size() && plan_.reduces; ++owner)
    if (plan_.gathers || owner == index()) reduce(owner);
  return Progress::finished;
}

void SmallCollective::reduce(int owner) {
  const auto contribution = [&](int hop, int64_t place) {
    return staging_ + begin_of(distance_to((owner + hop) % size())) + plan_.bytes(place);
  };
  std::byte* const partial = staging_ + begin_of(size());
  plan_.layout.for_each_range(owner, 0, plan_.layout.count(owner), [&](int64_t place, int64_t first, int64_t count) {
    const int64_t gathered = to_owners(plan_) ? first : place;
    const std::byte* sum = contribution(1, gathered);
    for (int hop = 2; hop <= size(); ++hop) {
      std::byte* into = hop == size() ? plan_.out(place) : partial;
      plan_.kernel(into, sum, contribution(hop, gathered), static_cast<size_t>(count));
      sum = into;
    }
  });
}

// The layout of a gather has one contiguous part per member.
void SmallCollective::place_parts() {
  for (int distance = 0; distance < size(); ++distance) {
    const size_t bytes = begin_of(distance + 1) - begin_of(distance);
    if (bytes > 0)
      std::memcpy(plan_.out(plan_.layout.part_begin(member_after(distance))), staging_ + begin_of(distance), bytes);
  }
}

int SmallCollective::waits_for() const {
  for (const Message& message : messages_)
    if (message.bytes > 0) return job_rank(message.member);
  return -1;
}

bool SmallCollective::waits_for_data() const {
  const auto arriving = std::span(messages_).first<kRadix - 1>();
  return std::ranges::any_of(arriving, [](const Message& message) { return message.bytes > 0; });
}

}  // namespace axonn
