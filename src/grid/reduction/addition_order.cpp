#include "grid/reduction/addition_order.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Every order in which a chunk was summed has a number. The contributions of the ranks are 0 ..
// ranks-1.
class AdditionOrders {
 public:
  AdditionOrders(int ranks, int64_t chunks)
      : next_(ranks), order_(static_cast<size_t>(ranks), std::vector<int>(static_cast<size_t>(chunks))) {
    for (int rank = 0; rank < ranks; ++rank) std::ranges::fill(order_[static_cast<size_t>(rank)], rank);
  }

  int& of(int rank, int64_t chunk) { return order_[static_cast<size_t>(rank)][static_cast<size_t>(chunk)]; }

  // The number of a chunk's sum over `members` that starts at `first`. In an all-reduce the order
  // also depends on the place in the message, so the messages must be equal.
  int sum(const std::vector<int>& members, size_t first, int64_t chunk, Range message) {
    std::vector<int> terms;
    for (size_t i = 0; i < members.size(); ++i) terms.push_back(of(members[(first + i) % members.size()], chunk));
    if (terms.size() == 2) {  // a + b is b + a
      std::ranges::sort(terms);
      message = {};
    }
    const auto [known, added] = numbers_.try_emplace({std::move(terms), message.begin, message.end}, next_);
    if (added) ++next_;
    return known->second;
  }

 private:
  int next_;
  std::vector<std::vector<int>> order_;  // by rank and chunk
  std::map<std::tuple<std::vector<int>, int64_t, int64_t>, int> numbers_;
};

void all_reduce(AdditionOrders& orders, const std::vector<int>& members, const std::vector<Range>& messages) {
  for (const Range& message : messages)
    for (int64_t chunk = message.begin; chunk < message.end; ++chunk) {
      const int sum = orders.sum(members, 0, chunk, message);
      for (const int member : members) orders.of(member, chunk) = sum;
    }
}

// Member `to` gets the sum of these chunks.
void reduce(AdditionOrders& orders, const std::vector<int>& members, size_t to, const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    for (int64_t chunk = range.begin; chunk < range.end; ++chunk)
      orders.of(members[to], chunk) = orders.sum(members, to + 1, chunk, {});
}

void copy(AdditionOrders& orders, const std::vector<int>& members, size_t from, const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    for (int64_t chunk = range.begin; chunk < range.end; ++chunk)
      for (const int member : members) orders.of(member, chunk) = orders.of(members[from], chunk);
}

}  // namespace

void check_addition_order(const ReductionProgram& program, std::span<const std::vector<int>> groups) {
  int ranks = 0;
  for (const auto& group : groups)
    for (const int rank : group) ranks = std::max(ranks, rank + 1);
  const HeldChunks flow = held_chunks(program, ranks);
  AdditionOrders orders(ranks, flow.chunks);
  for (size_t s = 0; s < program.steps.size(); ++s)
    for (const auto& members : program.steps[s].groups) {
      const auto held = [&](size_t step, size_t member) -> const auto& {
        return flow.held[step][static_cast<size_t>(members[member])];
      };
      switch (program.steps[s].collective) {
        case Collective::all_reduce:
          all_reduce(orders, members, held(s, 0));
          break;
        case Collective::reduce:
          reduce(orders, members, 0, held(s, 0));
          break;
        case Collective::broadcast:
          copy(orders, members, 0, held(s, 0));
          break;
        case Collective::reduce_scatter:
          for (size_t i = 0; i < members.size(); ++i) reduce(orders, members, i, held(s + 1, i));
          break;
        case Collective::all_gather:
          for (size_t i = 0; i < members.size(); ++i) copy(orders, members, i, held(s, i));
          break;
      }
    }
  for (const auto& group : groups)
    for (const int rank : group)
      for (int64_t chunk = 0; chunk < flow.chunks; ++chunk)
        AXONN_CHECK(orders.of(rank, chunk) == orders.of(group[0], chunk), "grid.addition_order", "ranks ", group[0],
                    " and ", rank,
                    " would add the same gradients in different orders and drift apart; list corresponding ranks of a "
                    "step's groups in the "
                    "same order");
}

}  // namespace axonn
