#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {
namespace {

using Chunks = std::vector<Range>;  // ascending ranges that do not touch

int64_t count_of(const Chunks& chunks) {
  int64_t sum = 0;
  for (const Range& range : chunks) sum += range.size();
  return sum;
}

// Chunks [begin, end) in the order of `chunks`.
Chunks part_of(const Chunks& chunks, int64_t begin, int64_t end) {
  Chunks part;
  for (const Range& range : chunks) {
    const Range taken = {range.begin + std::clamp<int64_t>(begin, 0, range.size()),
                         range.begin + std::clamp<int64_t>(end, 0, range.size())};
    if (taken.size() > 0) part.push_back(taken);
    begin -= range.size();
    end -= range.size();
  }
  return part;
}

// Joins the ranges of all members. Overlaps show as a smaller count.
Chunks union_of(Chunks all) {
  std::ranges::sort(all, {}, &Range::begin);
  Chunks joined;
  for (const Range& range : all)
    if (!joined.empty() && range.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, range.end);
    else
      joined.push_back(range);
  return joined;
}

class Flow {
 public:
  Flow(const ReductionProgram& program, int ranks) : program_(program) {
    flow_.held.push_back(std::vector<Chunks>(static_cast<size_t>(ranks), Chunks{{0, 1}}));
  }

  HeldChunks run() {
    for (step_ = 0; step_ < program_.steps.size(); ++step_) {
      flow_.held.push_back(flow_.held.back());
      for (const auto& group : program_.steps[step_].groups) apply(program_.steps[step_].collective, group);
    }
    return std::move(flow_);
  }

 private:
  Chunks& held(int rank) { return flow_.held.back()[static_cast<size_t>(rank)]; }

  void complain(bool fine, int a, int b, std::string_view what) const {
    AXONN_CHECK(fine, "grid.held_chunks", "step ", step_ + 1, " (", to_string(program_.steps[step_].collective),
                "): ranks ", a, " and ", b, " ", what);
  }

  void apply(Collective collective, std::span<const int> group) {
    const int root = group.front();
    complain(!held(root).empty() || collective == Collective::all_gather, root, group[1], "bring no data");
    switch (collective) {
      case Collective::all_reduce:
        return need_equal(group);
      case Collective::reduce_scatter:
        need_equal(group);
        return scatter(group);
      case Collective::all_gather:
        return gather(group);
      case Collective::reduce:
        need_equal(group);
        for (const int rank : group.subspan(1)) held(rank).clear();
        return;
      case Collective::broadcast:
        for (const int rank : group.subspan(1)) {
          Chunks both = held(root);
          both.insert(both.end(), held(rank).begin(), held(rank).end());
          complain(union_of(std::move(both)) == held(root), root, rank,
                   "hold different chunks, the root must have all of them");
        }
        for (const int rank : group.subspan(1)) held(rank) = held(root);
        return;
    }
    throw InternalError("grid.held_chunks", detail::concatenate("no collective ", static_cast<int>(collective)));
  }

  void need_equal(std::span<const int> group) {
    for (const int rank : group)
      complain(held(rank) == held(group.front()), group.front(), rank, "hold different chunks, need the same");
  }

  void scatter(std::span<const int> group) {
    const auto members = static_cast<int64_t>(group.size());
    const int64_t have = count_of(held(group.front()));
    refine(members / std::gcd(have, members));
    const Chunks whole = held(group.front());
    const int64_t each = count_of(whole) / members;
    for (int64_t i = 0; i < members; ++i)
      held(group[static_cast<size_t>(i)]) = part_of(whole, i * each, (i + 1) * each);
  }

  void gather(std::span<const int> group) {
    Chunks all;
    for (const int rank : group) {
      complain(count_of(held(rank)) == count_of(held(group.front())), group.front(), rank,
               "hold different numbers of chunks, need as many");
      all.insert(all.end(), held(rank).begin(), held(rank).end());
    }
    const int64_t brought = count_of(all);
    complain(brought > 0, group.front(), group[1], "bring no data");
    all = union_of(std::move(all));
    complain(count_of(all) == brought, group.front(), group.back(),
             "and those between them hold a chunk twice, need different ones");
    for (const int rank : group) held(rank) = all;
  }

  // Divides every chunk, of all steps so far, into `factor`.
  void refine(int64_t factor) {
    if (factor == 1) return;
    AXONN_CHECK(flow_.chunks <= std::numeric_limits<int>::max() / factor, "grid.held_chunks", "step ", step_ + 1,
                " scatters the buffer into more than 2147483647 parts");
    flow_.chunks *= factor;
    for (auto& ranks : flow_.held)
      for (Chunks& chunks : ranks)
        for (Range& range : chunks) range = {range.begin * factor, range.end * factor};
  }

  const ReductionProgram& program_;
  HeldChunks flow_;
  size_t step_ = 0;
};

}  // namespace

int64_t HeldChunks::count(size_t step, int rank) const { return count_of(held[step][static_cast<size_t>(rank)]); }

HeldChunks held_chunks(const ReductionProgram& program, int ranks) {
  check_reduction_program(program, ranks);
  return Flow(program, ranks).run();
}

}  // namespace axonn
