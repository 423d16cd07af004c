#include "comm/collectives/direct_collective.hpp"

#include <algorithm>
#include <utility>

#include "comm/host/buffer_pool.hpp"

namespace axonn {

DirectCollective::DirectCollective(Call call, CollectivePlan plan)
    : QueuedOperation(std::move(call)),
      plan_(std::move(plan)),
      stride_(plan_.bytes(exchanges_everything() ? plan_.layout.elements() : plan_.layout.count(index()))) {}

void DirectCollective::release() {
  if (staging_ != nullptr) pool().put(std::exchange(staging_, nullptr), stride_ * static_cast<size_t>(size() + 1));
}

void DirectCollective::begin(Transport& transport) {
  if (plan_.reduces && stride_ > 0) staging_ = pool().take(stride_ * static_cast<size_t>(size() + 1));
  if (!plan_.reduces) plan_.place_own_part(index());
  for (int distance = 1; distance < size(); ++distance) {
    const int source = (index() + size() - distance) % size();
    // The layout of a gather or a reduce-scatter has one contiguous part per member.
    std::byte* into =
        plan_.reduces ? staging_ + stride_ * static_cast<size_t>(source) : plan_.out(plan_.layout.part_begin(source));
    const size_t bytes = plan_.reduces ? stride_ : plan_.bytes(plan_.layout.count(source));
    if (bytes > 0) receives_.push_back({source, receive(transport, source, into, bytes)});
  }
  for (int distance = 1; distance < size(); ++distance) {
    const int target = (index() + distance) % size();
    const int owner = plan_.reduces ? target : index();
    const std::byte* from = exchanges_everything() ? plan_.input
                            : plan_.reduces        ? plan_.in(plan_.layout.part_begin(owner))
                                                   : plan_.out(plan_.layout.part_begin(owner));
    const size_t bytes = exchanges_everything() ? stride_ : plan_.bytes(plan_.layout.count(owner));
    if (bytes > 0) sends_.push_back({target, send(transport, target, from, bytes)});
  }
  begun_ = true;
}

bool DirectCollective::test(Transport& transport, c10::SmallVectorImpl<Message>& messages) {
  bool progressed = false;
  for (Message& message : messages)
    if (!message.done && transport.test(message.ticket)) progressed = message.done = true;
  return progressed;
}

QueuedOperation::Progress DirectCollective::poll(Transport& transport) {
  bool progressed = !begun_;
  if (!begun_) begin(transport);
  progressed |= test(transport, receives_);
  progressed |= test(transport, sends_);
  const auto done = [](const Message& message) { return message.done; };
  if (!std::ranges::all_of(receives_, done) || !std::ranges::all_of(sends_, done))
    return progressed ? Progress::made : Progress::blocked;
  if (plan_.reduces)
    for (int owner = 0; owner < size(); ++owner)
      if (plan_.gathers || owner == index()) reduce(owner);
  return Progress::finished;
}

const std::byte* DirectCollective::contribution(int member, int owner, int64_t place) const {
  if (member == index()) return plan_.in(place);
  const int64_t first = exchanges_everything() ? 0 : plan_.layout.part_begin(owner);
  return staging_ + stride_ * static_cast<size_t>(member) + plan_.bytes(place - first);
}

void DirectCollective::reduce(int owner) {
  std::byte* partial = staging_ + stride_ * static_cast<size_t>(size());
  plan_.layout.for_each_range(owner, 0, plan_.layout.count(owner), [&](int64_t place, int64_t, int64_t count) {
    const std::byte* sum = contribution((owner + 1) % size(), owner, place);
    for (int hop = 2; hop <= size(); ++hop) {
      std::byte* into = hop == size() ? plan_.out(place) : partial;
      plan_.kernel(into, sum, contribution((owner + hop) % size(), owner, place), static_cast<size_t>(count));
      sum = into;
    }
  });
}

int DirectCollective::waits_for() const {
  for (const auto* messages : {&receives_, &sends_})
    for (const Message& message : *messages)
      if (!message.done) return job_rank(message.member);
  return -1;
}

}  // namespace axonn
