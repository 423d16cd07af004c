#include "comm/programs/reduction_calls.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace axonn {
namespace {

// The ranges in member order, when every member holds one range and they are adjacent. No copy is
// then needed to see them as parts of one buffer.
std::optional<std::vector<Range>> in_a_row(const std::vector<std::vector<Range>>& held) {
  std::vector<Range> row;
  for (const std::vector<Range>& ranges : held) {
    if (ranges.size() != 1 || (!row.empty() && row.back().end != ranges[0].begin)) return std::nullopt;
    row.push_back(ranges[0]);
  }
  return row;
}

// `numbers` must ascend.
std::vector<Range> ranges_of(std::span<const int64_t> numbers) {
  std::vector<Range> ranges;
  for (const int64_t number : numbers)
    if (!ranges.empty() && ranges.back().end == number)
      ++ranges.back().end;
    else
      ranges.push_back({number, number + 1});
  return ranges;
}

}  // namespace

std::vector<ReductionCall> reduction_calls(Collective collective, const std::vector<std::vector<Range>>& before,
                                           const std::vector<std::vector<Range>>& after) {
  std::vector<ReductionCall> calls;
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

void write_to_shards(std::vector<ReductionCall>& calls, int members) {
  for (ReductionCall& call : calls) {
    if (call.collective == Collective::reduce) {
      call.collective = Collective::reduce_scatter;
      call.parts.assign(static_cast<size_t>(members), {call.chunks.end, call.chunks.end});
      std::fill_n(call.parts.begin(), call.root, Range{call.chunks.begin, call.chunks.begin});
      call.parts[static_cast<size_t>(call.root)] = call.chunks;
    }
    call.to_shard = true;
  }
}

void into_shards(HeldChunks& flow, const std::vector<int>& group) {
  std::vector<int64_t> number(static_cast<size_t>(flow.chunks), -1);
  int64_t next = 0;
  for (const int member : group)
    for (const Range& range : flow.held.back()[static_cast<size_t>(member)])
      for (int64_t chunk = range.begin; chunk < range.end; ++chunk) number[static_cast<size_t>(chunk)] = next++;
  for (auto& ranks : flow.held)
    for (const int member : group) {
      std::vector<int64_t> held;
      for (const Range& range : ranks[static_cast<size_t>(member)])
        for (int64_t chunk = range.begin; chunk < range.end; ++chunk)
          held.push_back(number[static_cast<size_t>(chunk)]);
      std::ranges::sort(held);
      ranks[static_cast<size_t>(member)] = ranges_of(held);
    }
}

}  // namespace axonn
