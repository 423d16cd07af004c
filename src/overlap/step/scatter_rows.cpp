// Rows that the ranks of a group divide: the two halves of an all-reduce, apart.
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace axonn {
namespace {

int64_t part_of(int64_t rows, const Communicator& ranks) { return even_part(rows, ranks.size(), ranks.rank()).size(); }

// Elements of each rank's part; none where all parts are equal.
std::vector<int64_t> counts_of(int64_t rows, int64_t width, int ranks) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks && rows % ranks != 0; ++rank)
    counts.push_back(even_part(rows, ranks, rank).size() * width);
  return counts;
}

}  // namespace

Pending Scheduler::scatter_rows(const at::Tensor& input, AxisSet axes, std::string_view tag) {
  if (grid_.shape().size(axes) == 1) return Pending(input);
  check_open();
  Communicator& ranks = communicators_[axes];
  const int64_t rows = input.size(0), width = input.size(1);
  const at::Tensor mine = at::empty({part_of(rows, ranks), width}, input.options());
  const std::vector<int64_t> counts = counts_of(rows, width, ranks.size());
  const Request request =
      ranks.reduce_scatter(input, mine, counts, ReduceOp::sum, {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(mine, input.nbytes(), axes, tag, request);
}

Pending Scheduler::gather_rows(const at::Tensor& mine, int64_t rows, AxisSet axes, std::string_view tag) {
  if (grid_.shape().size(axes) == 1) return Pending(mine);
  check_open();
  Communicator& ranks = communicators_[axes];
  const int64_t width = mine.size(1);
  const at::Tensor all = at::empty({rows, width}, mine.options());
  const std::vector<int64_t> counts = counts_of(rows, width, ranks.size());
  const Request request =
      ranks.all_gather(mine.contiguous(), all, counts, {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(all, axes, tag, request);
}

// C is at the owner of a row in every schedule; what is left to choose is when the sum begins.
Pending Scheduler::scatter(const RowProduct& product, AxisSet axes, std::string_view tag) {
  check_open();
  AXONN_ASSERT(grid_.shape().size(axes) > 1, "a sum has two ranks or more");
  Communicator& ranks = communicators_[axes];
  const bool overlaps = product.rows % ranks.size() == 0 && resolved(axes, product.bytes()) == LinearSchedule::overlap;
  ++linear_counts_[static_cast<size_t>(overlaps ? LinearSchedule::overlap : LinearSchedule::mm_rs_c_ag)];
  if (!overlaps) return scatter_rows(product.all(), axes, tag);
  const at::Tensor output = at::empty({product.rows, product.width}, product.options),
                   mine = at::empty({part_of(product.rows, ranks), product.width}, product.options);
  Production production(written_, parts_of(product, ranks.group()));
  const CollectiveOptions options{.priority = queue_of(Traffic::all_reduce), .tag = tag, .production = &production};
  const Request request = ranks.reduce_scatter(output, mine, {}, ReduceOp::sum, options);
  produce(product, output, production);
  return launched(mine, output.nbytes(), axes, tag, request);
}

}  // namespace axonn
