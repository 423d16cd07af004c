#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"

namespace axonn::bench {

// One collective of one size: the same call through axonn and through MPI. Every rank constructs it
// and calls the same functions in the same order.
class Case {
 public:
  Case(Environment& environment, std::string kind, const std::string& dtype, int64_t bytes);

  const std::string& name() const { return kind_; }
  int64_t bytes() const { return whole_.numel() * whole_.element_size(); }  // whole buffer, as in nccl-tests
  int64_t count() const { return whole_.numel(); }
  double bus_factor() const;
  Environment& environment() { return environment_; }

  Request start();      // axonn's
  void mpi_blocking();  // returns when done
  void mpi_start();     // non-blocking form
  void mpi_wait();
  // Errors of axonn's collective on this rank: fills the buffers, calls it once, checks every
  // element.
  int64_t count_errors();

 private:
  Environment& environment_;
  const std::string kind_;
  at::Tensor whole_, part_;
};

// Medians over the repetitions; each is the time of the slowest rank, in seconds. `errors` is the
// sum over all ranks.
struct Times {
  double ours = 0, mpi_blocking = 0, mpi_nonblocking = 0;
  int64_t errors = 0;
  double both = 0;                    // axonn's beside computation of the same duration
  double hidden = 0, hidden_mpi = 0;  // share of the transfer that computation hides
};
Times measure(Case& c, int repetitions, bool overlap);

}  // namespace axonn::bench
