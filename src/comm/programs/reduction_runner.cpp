#include "axonn/comm/programs/reduction_runner.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <c10/util/SmallVector.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "comm/programs/reduction_calls.hpp"

namespace axonn {

// The bounds of the chunks of a buffer. `shards` has the number of elements of each member's shard.
// It is empty when the chunks are equal and belong to no member in particular.
struct ReductionRunner::Cut {
  int64_t chunks;
  int64_t elements;
  std::span<const int64_t> shards;

  Range elements_of(Range range) const { return {border(range.begin), border(range.end)}; }

  int64_t border(int64_t chunk) const {
    if (shards.empty()) return part(elements, chunk, chunks);
    const int64_t each = chunks / static_cast<int64_t>(shards.size());
    AXONN_ASSERT(each > 0, chunks, " chunks for ", shards.size(), " members");
    const auto member = static_cast<size_t>(chunk / each);
    const int64_t begin = std::accumulate(shards.begin(), shards.begin() + static_cast<ptrdiff_t>(member), int64_t{0});
    return member == shards.size() ? begin : begin + part(shards[member], chunk % each, each);
  }

  static int64_t part(int64_t all, int64_t n, int64_t of) {
    return static_cast<int64_t>(static_cast<__int128>(all) * n / of);
  }
};

struct ReductionRunner::Buffers {
  at::Tensor data;
  at::Tensor shard;  // defined only for a reduce-scatter
  int64_t shard_begin = 0;
};

// One run; done when all its collectives are done.
struct ReductionRunner::Running final : Request::State {
  std::vector<Request> requests;  // in launch order

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

ReductionRunner::ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks,
                                 const ReductionRunnerOptions& options) {
  const std::vector<int>& job_ranks = options.job_ranks;
  AXONN_CHECK(rank >= 0 && rank < ranks, "comm.reduction_runner", "rank ", rank, " is not among the ", ranks,
              " ranks of the program");
  AXONN_CHECK(job_ranks.empty() || static_cast<int>(job_ranks.size()) == ranks, "comm.reduction_runner",
              "needs the job's rank of each of ", ranks, " ranks, got ", job_ranks.size());
  HeldChunks flow = held_chunks(program, ranks);
  chunks_ = flow.chunks;
  if (!options.scatter_groups.empty()) check_scatters(program, options.scatter_groups);
  for (const std::vector<int>& group : options.scatter_groups)
    if (const auto me = std::ranges::find(group, rank); me != group.end()) {
      member_ = static_cast<int>(me - group.begin());
      into_shards(flow, group);
    }
  result_ = flow.held.back()[static_cast<size_t>(rank)];
  std::map<std::vector<int>, std::vector<std::shared_ptr<Communicator>>> made;
  for (size_t i = 0; i < program.steps.size(); ++i)
    for (const std::vector<int>& members : program.steps[i].groups) {
      const auto me = std::ranges::find(members, rank);
      if (me == members.end()) continue;
      std::vector<std::vector<Range>> before, after;
      for (const int member : members) {
        before.push_back(flow.held[i][static_cast<size_t>(member)]);
        after.push_back(flow.held[i + 1][static_cast<size_t>(member)]);
      }
      Step& step = steps_.emplace_back();
      step.calls = reduction_calls(program.steps[i].collective, before, after);
      num_calls_ += step.calls.size();
      // On a GPU the calls run one after the other: NCCL kernels of several communicators may wait
      // for each other.
      const size_t lanes = options.device.is_cpu() ? std::clamp<size_t>(step.calls.size(), 1, members.size()) : 1;
      auto& communicators = made[members];
      while (communicators.size() < lanes) {
        Group group{.ranks = members, .index = static_cast<int>(me - members.begin())};
        if (!job_ranks.empty())
          std::ranges::transform(members, group.ranks.begin(),
                                 [&](int member) { return job_ranks[static_cast<size_t>(member)]; });
        communicators.push_back(
            environment.communicator(group, "reduction step " + std::to_string(i + 1), options.device));
      }
      step.lanes.assign(communicators.begin(), communicators.begin() + static_cast<ptrdiff_t>(lanes));
    }
  if (member_ >= 0) write_to_shards(steps_.back().calls, steps_.back().lanes.front()->size());
}

ReductionRunner::~ReductionRunner() = default;
ReductionRunner::ReductionRunner(ReductionRunner&&) noexcept = default;

void ReductionRunner::check_scatters(const ReductionProgram& program, std::span<const std::vector<int>> groups) {
  check_reduces(program, groups, ReductionGoal::scatter);
  for (const std::vector<int>& group : groups)
    for (const int rank : group) {
      const bool ends_so = !program.steps.empty() && program.steps.back().collective == Collective::reduce_scatter &&
                           std::ranges::any_of(program.steps.back().groups,
                                               [&](const auto& ranks) { return std::ranges::count(ranks, rank) > 0; });
      AXONN_CHECK(ends_so, "comm.reduction_runner", "its last step is no reduce-scatter in which rank ", rank,
                  " takes part");
    }
}

Request ReductionRunner::run(const at::Tensor& data, const CollectiveOptions& options) {
  AXONN_CHECK(data.dim() == 1 && data.is_contiguous(), "comm.reduction_runner",
              "needs a flat contiguous buffer, got sizes ", data.sizes());
  return run({.data = data, .shard = {}}, {.chunks = chunks_, .elements = data.numel(), .shards = {}}, options);
}

Request ReductionRunner::reduce_scatter(const at::Tensor& whole, const at::Tensor& shard,
                                        std::span<const int64_t> counts, const CollectiveOptions& options) {
  AXONN_CHECK(member_ >= 0 && counts.size() > static_cast<size_t>(member_), "comm.reduction_runner",
              "a reduce-scatter needs scatter_groups and a count for each member");
  const Cut cut{.chunks = chunks_, .elements = whole.numel(), .shards = counts};
  const int64_t each = chunks_ / static_cast<int64_t>(counts.size());
  const Range mine = cut.elements_of({member_ * each, (member_ + 1) * each});
  AXONN_CHECK(
      whole.dim() == 1 && whole.is_contiguous() && cut.border(chunks_) == whole.numel() && shard.numel() == mine.size(),
      "comm.reduction_runner", "needs a flat contiguous buffer of ", cut.border(chunks_), " elements and a shard of ",
      mine.size(), ", got sizes ", whole.sizes(), " and ", shard.sizes());
  return run({.data = whole, .shard = shard, .shard_begin = mine.begin}, cut, options);
}

Request ReductionRunner::run(const Buffers& buffers, const Cut& cut, const CollectiveOptions& options) {
  const std::shared_ptr<Running> running = idle();
  auto& requests = running->requests;  // has room for all, because each step refers to the requests of the step before
  CollectiveOptions now{
      .priority = options.priority, .after = options.after, .tag = options.tag, .segment_bytes = options.segment_bytes};
  for (const Step& step : steps_) {
    const size_t begin = requests.size();
    for (size_t i = 0; i < step.calls.size(); ++i)
      if (cut.elements_of(step.calls[i].chunks).size() > 0)
        requests.push_back(launch(*step.lanes[i % step.lanes.size()], step.calls[i], buffers, cut, now));
    if (requests.size() > begin) now.after = std::span<const Request>(requests).subspan(begin);
  }
  return Request(running);
}

Request ReductionRunner::launch(Communicator& communicator, const ReductionCall& call, const Buffers& buffers,
                                const Cut& cut, const CollectiveOptions& options) {
  const auto view = [&](Range chunks) {
    const Range elements = cut.elements_of(chunks);
    return buffers.data.narrow(0, elements.begin, elements.size());
  };
  const at::Tensor whole = view(call.chunks);
  if (call.collective == Collective::all_reduce) return communicator.all_reduce(whole, ReduceOp::sum, options);
  if (call.collective == Collective::reduce) return communicator.reduce(whole, call.root, ReduceOp::sum, options);
  if (call.collective == Collective::broadcast) return communicator.broadcast(whole, call.root, options);
  c10::SmallVector<int64_t, 16> counts;
  for (const Range& part : call.parts) counts.push_back(cut.elements_of(part).size());
  const Range part = call.parts[static_cast<size_t>(communicator.rank())];
  const Range elements = cut.elements_of(part);
  const at::Tensor mine = call.to_shard && elements.size() > 0
                              ? buffers.shard.narrow(0, elements.begin - buffers.shard_begin, elements.size())
                              : view(part);
  if (call.collective == Collective::all_gather) return communicator.all_gather(mine, whole, counts, options);
  return communicator.reduce_scatter(whole, mine, counts, ReduceOp::sum, options);
}

std::shared_ptr<ReductionRunner::Running> ReductionRunner::idle() {
  const auto unused =
      std::ranges::find_if(running_, [](const auto& running) { return running.use_count() == 1 && running->done(); });
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
  for (const Range& chunks : result_)
    ranges.push_back(Cut{.chunks = chunks_, .elements = elements, .shards = {}}.elements_of(chunks));
  return ranges;
}

int64_t ReductionRunner::bytes_sent() const {
  std::map<const Communicator*, int64_t> sent;
  for (const Step& step : steps_)
    for (const auto& lane : step.lanes) sent[lane.get()] = lane->counters().bytes_sent;
  int64_t total = 0;
  for (const auto& [communicator, bytes] : sent) total += bytes;
  return total;
}

}  // namespace axonn
