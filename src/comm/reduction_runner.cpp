#include "axonn/comm/reduction_runner.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// The views one after the other: themselves when there is one, else a copy.
at::Tensor packed(const std::vector<at::Tensor>& views) { return views.size() == 1 ? views.front() : at::cat(views); }

// What packed() gave, back to where it came from, from element `begin` on.
void unpack(const at::Tensor& all, int64_t begin, const std::vector<at::Tensor>& views) {
  for (const at::Tensor& view : views) {
    const at::Tensor part = all.narrow(0, begin, view.numel());
    if (part.data_ptr() != view.data_ptr()) view.copy_(part);
    begin += view.numel();
  }
}

int64_t numel(const std::vector<at::Tensor>& views) {
  int64_t total = 0;
  for (const at::Tensor& view : views) total += view.numel();
  return total;
}

}  // namespace

ReductionRunner::ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks, c10::Device device,
                                 std::vector<int> job_ranks) {
  AXONN_CHECK(rank >= 0 && rank < ranks, "comm.reduction_runner", "rank ", rank, " is not among the ", ranks, " ranks of the program");
  AXONN_CHECK(job_ranks.empty() || static_cast<int>(job_ranks.size()) == ranks, "comm.reduction_runner", "needs the job's rank of each of ",
              ranks, " ranks, got ", job_ranks.size());
  const HeldChunks flow = held_chunks(program, ranks);
  chunks_ = flow.chunks;
  std::map<std::vector<int>, std::shared_ptr<Communicator>> made;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Step step{.collective = program.steps[i].collective, .communicator = nullptr, .before = {}, .after = {}};
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
      step.communicator = communicator;
      for (const int member : members) {
        step.before.push_back(flow.held[i][static_cast<size_t>(member)]);
        step.after.push_back(flow.held[i + 1][static_cast<size_t>(member)]);
      }
    }
    steps_.push_back(std::move(step));
  }
  result_ = flow.held.back()[static_cast<size_t>(rank)];
}

void ReductionRunner::run(const at::Tensor& data) const {
  AXONN_CHECK(data.dim() == 1 && data.is_contiguous(), "comm.reduction_runner", "needs a flat contiguous buffer, got sizes ", data.sizes());
  for (const Step& step : steps_)
    if (step.communicator) run(step, data);
}

void ReductionRunner::run(const Step& step, const at::Tensor& data) const {
  const auto me = static_cast<size_t>(step.communicator->rank());
  const std::vector<at::Tensor> mine = views(data, step.before[me]);
  std::vector<int64_t> counts;  // of members' parts
  switch (step.collective) {
    case Collective::all_reduce:
    case Collective::reduce: {
      const at::Tensor all = packed(mine);
      (step.collective == Collective::reduce ? step.communicator->reduce(all, 0) : step.communicator->all_reduce(all)).wait();
      unpack(all, 0, mine);
      return;
    }
    case Collective::broadcast: {
      const std::vector<at::Tensor> of_root = views(data, step.before[0]);
      const at::Tensor all = packed(of_root);
      step.communicator->broadcast(all, 0).wait();
      unpack(all, 0, of_root);
      return;
    }
    case Collective::reduce_scatter: {
      for (const auto& part : step.after) counts.push_back(numel(views(data, part)));
      const std::vector<at::Tensor> kept = views(data, step.after[me]);
      const at::Tensor output = at::empty({counts[me]}, data.options());
      step.communicator->reduce_scatter(packed(mine), output, counts).wait();
      unpack(output, 0, kept);
      return;
    }
    case Collective::all_gather: {
      for (const auto& part : step.before) counts.push_back(numel(views(data, part)));
      const at::Tensor output = at::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})}, data.options());
      step.communicator->all_gather(packed(mine), output, counts).wait();
      int64_t begin = 0;
      for (size_t member = 0; member < counts.size(); ++member) {
        unpack(output, begin, views(data, step.before[member]));
        begin += counts[member];
      }
      return;
    }
  }
}

std::vector<Range> ReductionRunner::result(int64_t elements) const {
  std::vector<Range> ranges;
  for (const Range& chunks : result_) ranges.push_back(elements_of(chunks, elements));
  return ranges;
}

int64_t ReductionRunner::bytes_sent() const {
  std::map<const Communicator*, int64_t> sent;
  for (const Step& step : steps_)
    if (step.communicator) sent[step.communicator.get()] = step.communicator->counters().bytes_sent;
  int64_t total = 0;
  for (const auto& [communicator, bytes] : sent) total += bytes;
  return total;
}

Range ReductionRunner::elements_of(Range chunks, int64_t elements) const {
  const auto border = [&](int64_t chunk) { return static_cast<int64_t>(static_cast<__int128>(elements) * chunk / chunks_); };
  return {border(chunks.begin), border(chunks.end)};
}

std::vector<at::Tensor> ReductionRunner::views(const at::Tensor& data, const std::vector<Range>& chunks) const {
  std::vector<at::Tensor> result;
  for (const Range& range : chunks) {
    const Range elements = elements_of(range, data.numel());
    result.push_back(data.narrow(0, elements.begin, elements.size()));
  }
  return result;
}

}  // namespace axonn
