// The part of the engine that asks other ranks about calls that make no progress, and answers them:
// WaitProbe says what may be concluded.
#include "comm/host/progress_engine.hpp"

#include <algorithm>
#include <utility>

namespace axonn {

// A call that has started and waits for one rank, as a link. Nothing when it does not.
std::optional<WaitProbe::Link> ProgressEngine::link(const QueuedOperation& operation) const {
  const auto call = operation.call();
  const bool alone = call.point_to_point();
  if (!operation.started_ || operation.waits_for() < 0 || operation.waits_for() == transport_->rank())
    return std::nullopt;
  return WaitProbe::Link{
      .rank = transport_->rank(),
      .call = {.channel = call.channel,
               .order = operation.order_,
               .peer = alone ? transport_->rank() : -1,
               .sends = call.collective == "receive",
               .signature = call.details.signature,
               .text = call.full_text(),
               .needed = operation.needs_its_call(),
               .needs_all = operation.needs_all(),
               .earlier = alone ? std::vector<WaitProbe::Call::Earlier>()
                                : earlier_calls(*recorder_, {.channel = call.channel, .order = operation.order_})}};
}

void ProgressEngine::probe(QueuedOperation& operation, Clock::time_point now) {
  if (!operation.started_ || enquiry_->under_way() ||
      !operation.probes_.due(now, operation.last_progress_, operation.waits_for()))
    return;
  auto asker = link(operation);
  if (!asker) return;
  const QueuedOperation* const waits_in = program_waits_in();
  const bool program_waits =
      waits_in != nullptr && waits_in->held_back_by() == &operation && operation.details_.by_program;
  enquiry_->probe(operation.waits_for(),
                  {.path = {*std::move(asker)}, .passed_on = {}, .program_waits = program_waits});
}

QueuedOperation* ProgressEngine::program_waits_in() const {
  for (const auto& queues : busy_queues_)
    for (const auto& queue : queues)
      for (QueuedOperation* operation = queue->head.get(); operation != nullptr; operation = operation->next_.get())
        if (operation->program_waits_.load(std::memory_order_acquire)) return operation;
  return nullptr;
}

QueuedOperation* ProgressEngine::find(const FlightRecorder::Key& key) const {
  for (const auto& queues : busy_queues_)
    for (const auto& queue : queues)
      for (QueuedOperation* operation = queue->head.get(); operation != nullptr; operation = operation->next_.get())
        if (operation->recorded_channel() == key.channel && key.peer < 0 && operation->order_ == key.order &&
            !operation->call().point_to_point())
          return operation;
  return nullptr;
}

// Looks first at what the program does, then at what it has called: if it waits, it had called all
// of it before.
void ProgressEngine::answer(WaitProbe probe) {
  const bool ended = program_ended_;
  const QueuedOperation* const waits_in = program_waits_in();
  if (has_mail_) admit();
  const WaitProbe::Call& call = probe.asker().call;
  const int rank = transport_->rank();
  const auto own = recorder_->find(call.key());
  if (own && own->details.signature != call.signature) return enquiry_->end_job(probe.mismatch(rank, *recorder_));
  if (!call.needed) return;

  const QueuedOperation* holds = nullptr;  // the call that keeps this rank from making that one, or moving in it
  if (!recorder_->has_called(call.key())) {
    if (ended) return enquiry_->end_job(probe.ended(rank));
    if (waits_in == nullptr || recorder_->called_by_others(call.channel)) return;
    holds = waits_in->held_back_by();
  } else if (const QueuedOperation* const here = find(call.key()); here == nullptr) {
    return;
  } else if (here->started_) {
    const int next = here->waits_for();
    if (probe.path.size() == 1 || !call.needs_all || next < 0 || next == rank ||
        std::ranges::find(probe.passed_on, rank) != probe.passed_on.end())
      return;
    probe.passed_on.push_back(rank);
    return enquiry_->probe(next, probe);
  } else {
    holds = here->held_back_by();
  }
  if (!probe.program_waits || holds == nullptr || !holds->details_.by_program) return;
  auto next = link(*holds);
  if (!next || !next->call.needed) return;
  const auto before = std::ranges::find(probe.path, rank, &WaitProbe::Link::rank);
  if (before != probe.path.end()) {
    if (before->call.same(next->call))
      enquiry_->end_job(probe.circle(static_cast<size_t>(before - probe.path.begin())));
    return;
  }
  probe.path.back().call.earlier.clear();
  probe.path.push_back(*std::move(next));
  probe.passed_on.clear();
  enquiry_->probe(holds->waits_for(), probe);
}

}  // namespace axonn
