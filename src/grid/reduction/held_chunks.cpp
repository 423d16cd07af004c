#include <algorithm>
#include <limits>
#include <map>
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

// Parts of equal size, in the order of `chunks`.
std::vector<Chunks> equal_parts(const Chunks& chunks, int64_t parts) {
  const int64_t each = count_of(chunks) / parts;
  std::vector<Chunks> found(1);
  int64_t missing = each;  // in the last part
  for (Range range : chunks)
    while (range.size() > 0) {
      if (missing == 0) {
        found.emplace_back();
        missing = each;
      }
      const Range taken = {range.begin, range.begin + std::min(missing, range.size())};
      found.back().push_back(taken);
      missing -= taken.size();
      range.begin = taken.end;
    }
  return found;
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

// Ranks that hold the same chunks share one list, and what was done to a list is done once: groups
// that bring the same lists are one class. So time and memory grow with the ranks, not with their
// square, although a gather may interleave the parts of all of them.
class Flow {
 public:
  Flow(const ReductionProgram& program, int ranks) : program_(program), lists_{{}, {{0, 1}}}, counts_{0, 1} {
    held_.emplace_back(static_cast<size_t>(ranks), kWhole);
  }

  void run() {
    for (step_ = 0; step_ < program_.steps.size(); ++step_) {
      held_.push_back(held_.back());
      for (const auto& group : program_.steps[step_].groups) apply(program_.steps[step_].collective, group);
    }
  }

  HeldChunks chunks() const {
    HeldChunks flow = {.chunks = chunks_};
    for (const auto& ranks : held_) {
      auto& lists = flow.held.emplace_back();
      for (const size_t list : ranks) lists.push_back(lists_[list]);
    }
    return flow;
  }

  HeldShares shares() const {
    std::vector<double> share;
    for (const int64_t count : counts_) share.push_back(static_cast<double>(count) / static_cast<double>(chunks_));
    HeldShares flow;
    for (const auto& ranks : held_) {
      auto& shares = flow.emplace_back();
      for (const size_t list : ranks) shares.push_back(share[list]);
    }
    return flow;
  }

 private:
  static constexpr size_t kNothing = 0, kWhole = 1;  // the first two lists

  size_t& list(int rank) { return held_.back()[static_cast<size_t>(rank)]; }
  const Chunks& held(int rank) { return lists_[list(rank)]; }
  bool same(int a, int b) { return list(a) == list(b) || held(a) == held(b); }
  size_t add(Chunks chunks) {
    lists_.push_back(std::move(chunks));
    counts_.push_back(count_of(lists_.back()));
    return lists_.size() - 1;
  }

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
        for (const int rank : group.subspan(1)) list(rank) = kNothing;
        return;
      case Collective::broadcast:
        for (const int rank : group.subspan(1))
          complain(same(root, rank) || has_all_of(root, rank), root, rank,
                   "hold different chunks, the root must have all of them");
        for (const int rank : group.subspan(1)) list(rank) = list(root);
        return;
    }
    throw InternalError("grid.held_chunks", detail::concatenate("no collective ", static_cast<int>(collective)));
  }

  bool has_all_of(int root, int rank) {
    if (held(rank).empty()) return true;
    Chunks both = held(root);
    both.insert(both.end(), held(rank).begin(), held(rank).end());
    return union_of(std::move(both)) == held(root);
  }

  void need_equal(std::span<const int> group) {
    for (const int rank : group)
      complain(same(group.front(), rank), group.front(), rank, "hold different chunks, need the same");
  }

  void scatter(std::span<const int> group) {
    const auto members = static_cast<int64_t>(group.size());
    std::vector<size_t>& parts = scattered_[{list(group.front()), members}];
    if (parts.empty()) {
      refine(members / std::gcd(counts_[list(group.front())], members));
      for (Chunks& part : equal_parts(held(group.front()), members)) parts.push_back(add(std::move(part)));
    }
    for (size_t i = 0; i < parts.size(); ++i) list(group[i]) = parts[i];
  }

  void gather(std::span<const int> group) {
    const int64_t each = counts_[list(group.front())];
    std::vector<size_t> brought;
    for (const int rank : group) {
      complain(counts_[list(rank)] == each, group.front(), rank, "hold different numbers of chunks, need as many");
      brought.push_back(list(rank));
    }
    complain(each > 0, group.front(), group[1], "bring no data");
    size_t& gathered = gathered_[brought];
    if (gathered == kNothing) {
      Chunks all;
      for (const size_t one : brought) all.insert(all.end(), lists_[one].begin(), lists_[one].end());
      all = union_of(std::move(all));
      complain(count_of(all) == each * static_cast<int64_t>(group.size()), group.front(), group.back(),
               "and those between them hold a chunk twice, need different ones");
      gathered = add(std::move(all));
    }
    for (const int rank : group) list(rank) = gathered;
  }

  // Divides every chunk, of all steps so far, into `factor`.
  void refine(int64_t factor) {
    if (factor == 1) return;
    AXONN_CHECK(chunks_ <= std::numeric_limits<int>::max() / factor, "grid.held_chunks", "step ", step_ + 1,
                " scatters the buffer into more than 2147483647 parts");
    chunks_ *= factor;
    for (Chunks& chunks : lists_)
      for (Range& range : chunks) range = {range.begin * factor, range.end * factor};
    for (int64_t& count : counts_) count *= factor;
  }

  const ReductionProgram& program_;
  int64_t chunks_ = 1;
  std::vector<Chunks> lists_;
  std::vector<int64_t> counts_;                                          // chunks of each list
  std::map<std::vector<size_t>, size_t> gathered_;                       // the union of these lists
  std::map<std::pair<size_t, int64_t>, std::vector<size_t>> scattered_;  // a list's parts for so many members
  std::vector<std::vector<size_t>> held_;  // before each step and after the last one, the list of every rank
  size_t step_ = 0;
};

Flow flow_of(const ReductionProgram& program, int ranks) {
  check_reduction_program(program, ranks);
  Flow flow(program, ranks);
  flow.run();
  return flow;
}

}  // namespace

int64_t HeldChunks::count(size_t step, int rank) const { return count_of(held[step][static_cast<size_t>(rank)]); }

HeldChunks held_chunks(const ReductionProgram& program, int ranks) { return flow_of(program, ranks).chunks(); }

HeldShares held_shares(const ReductionProgram& program, int ranks) { return flow_of(program, ranks).shares(); }

}  // namespace axonn
