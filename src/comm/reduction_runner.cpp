#include "axonn/comm/reduction_runner.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <c10/util/SmallVector.h>

#include "axonn/core/error.hpp"

namespace axonn {

struct ReductionRunner::Call {
  Collective collective;
  int root = 0;              // of reduce and broadcast
  Range chunks;              // that it works on
  std::vector<Range> parts;  // of it, by member, one after the other: reduce-scatter and all-gather
};

// One run: done when all its collectives are.
struct ReductionRunner::Running final : Request::State {
  std::vector<Request> requests;  // in the order of launching

  void wait() override {
    for (const Request& request : requests) request.wait();
  }
  bool done() override { return std::ranges::all_of(requests, &Request::done); }
  std::optional<Request::Times> moved() const override {
    std::optional<Request::Times> all;
    for (const Request& request : requests)
      if (const auto one = request.moved()) all = {all ? std::min(all->first, one->first) : one->first, one->second};
    return all;
  }
};

namespace {

// Every member holds one range, and they follow each other: no copy is needed to see them as parts of one buffer.
std::optional<std::vector<Range>> in_a_row(const std::vector<std::vector<Range>>& held) {
  std::vector<Range> row;
  for (const std::vector<Range>& ranges : held) {
    if (ranges.size() != 1 || (!row.empty() && row.back().end != ranges[0].begin)) return std::nullopt;
    row.push_back(ranges[0]);
  }
  return row;
}

}  // namespace

ReductionRunner::ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks, c10::Device device,
                                 std::vector<int> job_ranks) {
  AXONN_CHECK(rank >= 0 && rank < ranks, "comm.reduction_runner", "rank ", rank, " is not among the ", ranks, " ranks of the program");
  AXONN_CHECK(job_ranks.empty() || static_cast<int>(job_ranks.size()) == ranks, "comm.reduction_runner", "needs the job's rank of each of ",
              ranks, " ranks, got ", job_ranks.size());
  const HeldChunks flow = held_chunks(program, ranks);
  chunks_ = flow.chunks;
  result_ = flow.held.back()[static_cast<size_t>(rank)];
  std::map<std::vector<int>, std::shared_ptr<Communicator>> made;
  for (size_t i = 0; i < program.steps.size(); ++i)
    for (const std::vector<int>& members : program.steps[i].groups) {
      const auto me = std::ranges::find(members, rank);
      if (me == members.end()) continue;
      auto& communicator = made[members];
      if (!communicator) {
        Group group{.ranks = members, .index = static_cast<int>(me - members.begin())};
        if (!job_ranks.empty())
          std::ranges::transform(members, group.ranks.begin(), [&](int member) { return job_ranks[static_cast<size_t>(member)]; });
        communicator = environment.communicator(group, "reduction step " + std::to_string(i + 1), device);
      }
      std::vector<std::vector<Range>> before, after;
      for (const int member : members) {
        before.push_back(flow.held[i][static_cast<size_t>(member)]);
        after.push_back(flow.held[i + 1][static_cast<size_t>(member)]);
      }
      steps_.push_back({communicator, calls_of(program.steps[i].collective, before, after)});
      num_calls_ += steps_.back().calls.size();
    }
}

ReductionRunner::~ReductionRunner() = default;
ReductionRunner::ReductionRunner(ReductionRunner&&) noexcept = default;

// Where a member's chunks do not lie side by side, its part is reduced to it, or broadcast from it, range by range: as many bytes as in one
// reduce-scatter or all-gather, and nothing has to be copied together.
std::vector<ReductionRunner::Call> ReductionRunner::calls_of(Collective collective, const std::vector<std::vector<Range>>& before,
                                                             const std::vector<std::vector<Range>>& after) {
  std::vector<Call> calls;
  const auto add = [&](Collective what, int root, const std::vector<Range>& ranges) {
    for (const Range& range : ranges) calls.push_back({.collective = what, .root = root, .chunks = range, .parts = {}});
  };
  if (collective != Collective::reduce_scatter && collective != Collective::all_gather) {
    add(collective, 0, before[0]);
    return calls;
  }
  const bool scatters = collective == Collective::reduce_scatter;
  const auto& parts = scatters ? after : before;
  if (auto row = in_a_row(parts)) return {{collective, 0, {row->front().begin, row->back().end}, std::move(*row)}};
  for (size_t member = 0; member < parts.size(); ++member)
    add(scatters ? Collective::reduce : Collective::broadcast, static_cast<int>(member), parts[member]);
  return calls;
}

Request ReductionRunner::run(const at::Tensor& data, const CollectiveOptions& options) {
  AXONN_CHECK(data.dim() == 1 && data.is_contiguous(), "comm.reduction_runner", "needs a flat contiguous buffer, got sizes ", data.sizes());
  const std::shared_ptr<Running> running = idle();
  auto& requests = running->requests;  // has room for all: the steps refer to those of the step before
  CollectiveOptions now{.priority = options.priority, .after = options.after, .tag = options.tag};
  for (const Step& step : steps_) {
    const size_t begin = requests.size();
    for (const Call& call : step.calls)
      if (elements_of(call.chunks, data.numel()).size() > 0) requests.push_back(launch(*step.communicator, call, data, now));
    if (requests.size() > begin) now.after = std::span<const Request>(requests).subspan(begin);
  }
  return Request(running);
}

Request ReductionRunner::launch(Communicator& communicator, const Call& call, const at::Tensor& data,
                                const CollectiveOptions& options) const {
  const auto view = [&](Range chunks) {
    const Range elements = elements_of(chunks, data.numel());
    return data.narrow(0, elements.begin, elements.size());
  };
  const at::Tensor whole = view(call.chunks);
  if (call.collective == Collective::all_reduce) return communicator.all_reduce(whole, ReduceOp::sum, options);
  if (call.collective == Collective::reduce) return communicator.reduce(whole, call.root, ReduceOp::sum, options);
  if (call.collective == Collective::broadcast) return communicator.broadcast(whole, call.root, options);
  c10::SmallVector<int64_t, 16> counts;
  for (const Range& part : call.parts) counts.push_back(elements_of(part, data.numel()).size());
  const at::Tensor mine = view(call.parts[static_cast<size_t>(communicator.rank())]);
  if (call.collective == Collective::all_gather) return communicator.all_gather(mine, whole, counts, options);
  return communicator.reduce_scatter(whole, mine, counts, ReduceOp::sum, options);
}

std::shared_ptr<ReductionRunner::Running> ReductionRunner::idle() {
  const auto unused = std::ranges::find_if(running_, [](const auto& running) { return running.use_count() == 1 && running->done(); });
  if (unused != running_.end()) {
    (*unused)->requests.clear();
    return *unused;
  }
  running_.push_back(std::make_shared<Running>());
  running_.back()->requests.reserve(num_calls_);
  return running_.back();
}

std::vector<Range> ReductionRunner::result(int64_t elements) const {
  std::vector<Range> ranges;
  for (const Range& chunks : result_) ranges.push_back(elements_of(chunks, elements));
  return ranges;
}

int64_t ReductionRunner::bytes_sent() const {
  std::map<const Communicator*, int64_t> sent;
  for (const Step& step : steps_) sent[step.communicator.get()] = step.communicator->counters().bytes_sent;
  int64_t total = 0;
  for (const auto& [communicator, bytes] : sent) total += bytes;
  return total;
}

Range ReductionRunner::elements_of(Range chunks, int64_t elements) const {
  const auto border = [&](int64_t chunk) { return static_cast<int64_t>(static_cast<__int128>(elements) * chunk / chunks_); };
  return {border(chunks.begin), border(chunks.end)};
}

}  // namespace axonn
