#include "collectives_measure.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <mpi.h>

#include "medians.hpp"

namespace axonn::bench {
namespace {

MPI_Request pending = MPI_REQUEST_NULL;

MPI_Datatype mpi_type(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? MPI_DOUBLE : MPI_FLOAT; }

// Matrix products that fit in the cache.
void compute(int64_t products) {
  static const at::Tensor a = at::ones({128, 128}, at::kFloat), b = at::ones({128, 128}, at::kFloat);
  static at::Tensor c = at::zeros({128, 128}, at::kFloat);
  for (int64_t i = 0; i < products; ++i) at::mm_out(c, a, b);
}

}  // namespace

Case::Case(Environment& environment, std::string kind, const std::string& dtype, int64_t bytes)
    : environment_(environment), kind_(std::move(kind)) {
  const auto type = dtype == "fp64" ? at::kDouble : at::kFloat;
  const int64_t part = std::max<int64_t>(1, bytes / static_cast<int64_t>(c10::elementSize(type)) / environment.ranks());
  whole_ = at::zeros({part * environment.ranks()}, type);
  part_ = at::zeros({part}, type);
}

double Case::bus_factor() const {
  const double n = environment_.ranks();
  return kind_ == "all-reduce" ? 2 * (n - 1) / n : kind_ == "broadcast" ? 1 : (n - 1) / n;
}

Request Case::start() {
  Communicator& world = environment_.world();
  if (kind_ == "all-reduce") return world.all_reduce(whole_);
  if (kind_ == "reduce-scatter") return world.reduce_scatter(whole_, part_);
  if (kind_ == "all-gather") return world.all_gather(part_, whole_);
  return world.broadcast(whole_, 0);
}

void Case::mpi_blocking() {
  const auto type = mpi_type(whole_);
  const int all = static_cast<int>(whole_.numel()), part = static_cast<int>(part_.numel());
  if (kind_ == "all-reduce") {
    MPI_Allreduce(MPI_IN_PLACE, whole_.data_ptr(), all, type, MPI_SUM, MPI_COMM_WORLD);
  } else if (kind_ == "reduce-scatter") {
    // The _block form is much slower in Open MPI 4.1.
    const std::vector<int> counts(static_cast<size_t>(environment_.ranks()), part);
    MPI_Reduce_scatter(whole_.data_ptr(), part_.data_ptr(), counts.data(), type, MPI_SUM, MPI_COMM_WORLD);
  } else if (kind_ == "all-gather") {
    MPI_Allgather(part_.data_ptr(), part, type, whole_.data_ptr(), part, type, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(whole_.data_ptr(), all, type, 0, MPI_COMM_WORLD);
  }
}

void Case::mpi_start() {
  const auto type = mpi_type(whole_);
  const int all = static_cast<int>(whole_.numel()), part = static_cast<int>(part_.numel());
  if (kind_ == "all-reduce")
    MPI_Iallreduce(MPI_IN_PLACE, whole_.data_ptr(), all, type, MPI_SUM, MPI_COMM_WORLD, &pending);
  else if (kind_ == "reduce-scatter")
    MPI_Ireduce_scatter_block(whole_.data_ptr(), part_.data_ptr(), part, type, MPI_SUM, MPI_COMM_WORLD, &pending);
  else if (kind_ == "all-gather")
    MPI_Iallgather(part_.data_ptr(), part, type, whole_.data_ptr(), part, type, MPI_COMM_WORLD, &pending);
  else
    MPI_Ibcast(whole_.data_ptr(), all, type, 0, MPI_COMM_WORLD, &pending);
}

void Case::mpi_wait() { MPI_Wait(&pending, MPI_STATUS_IGNORE); }

int64_t Case::count_errors() {
  const int n = environment_.ranks(), rank = environment_.rank();
  const bool reduces = kind_.starts_with("all-reduce") || kind_.starts_with("reduce");
  whole_.fill_(rank + 1);
  part_.fill_(rank + 1);
  start().wait();
  const at::Tensor& result = kind_ == "reduce-scatter" ? part_ : whole_;
  at::Tensor expected = at::full_like(result, reduces ? n * (n + 1) / 2 : 1);
  if (kind_ == "all-gather")
    for (int owner = 0; owner < n; ++owner) expected.narrow(0, owner * part_.numel(), part_.numel()).fill_(owner + 1);
  const int64_t errors = result.ne(expected).sum().item<int64_t>();
  whole_.zero_();  // sums of zeros neither overflow nor slow down
  part_.zero_();
  return errors;
}

Times measure(Case& c, int repetitions, bool overlap) {
  Environment& environment = c.environment();
  Times times;
  const at::Tensor errors = at::full({1}, c.count_errors(), at::kLong);
  environment.world().all_reduce(errors).wait();
  times.errors = errors.item<int64_t>();

  const auto ours = [&] { c.start().wait(); };
  const auto mpi_blocking = [&] { c.mpi_blocking(); };
  const auto mpi_nonblocking = [&] { c.mpi_start(), c.mpi_wait(); };
  const auto alone = medians(environment, repetitions, {ours, mpi_blocking, mpi_nonblocking});
  times.ours = alone[0], times.mpi_blocking = alone[1], times.mpi_nonblocking = alone[2];
  if (!overlap) return times;

  const int64_t probe = 200;
  const double one = medians(environment, 5, {[&] { compute(probe); }})[0] / static_cast<double>(probe);
  const auto products = std::max<int64_t>(1, static_cast<int64_t>(times.ours / one));
  const auto products_mpi = std::max<int64_t>(1, static_cast<int64_t>(times.mpi_nonblocking / one));
  const auto busy = medians(environment, repetitions,
                            {[&] { compute(products); },
                             [&] {
                               const Request request = c.start();
                               compute(products);
                               request.wait();
                             },
                             [&] { compute(products_mpi); },
                             [&] {
                               c.mpi_start();
                               compute(products_mpi);
                               c.mpi_wait();
                             }});
  times.both = busy[1];
  times.hidden = (times.ours + busy[0] - busy[1]) / std::min(times.ours, busy[0]);
  times.hidden_mpi = (times.mpi_nonblocking + busy[2] - busy[3]) / std::min(times.mpi_nonblocking, busy[2]);
  return times;
}

}  // namespace axonn::bench
