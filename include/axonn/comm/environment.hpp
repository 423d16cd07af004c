#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/engine_counters.hpp"

namespace axonn {

// One process's place in its job, made once in main; owns start-up, the progress engine and finalisation. Start-up is chosen by what
// launched the process: an MPI launcher (mpirun, srun --mpi=pmix) when MPI is built in, else RANK and WORLD_SIZE (TCP), else one rank
// alone. Asked for and absent is a BackendError, never a fallback. UserError when the process has loaded another LibTorch than axonn was
// built with, or two OpenMP run times. Every rank of the job makes it and destroys it; the destructor waits for the other ranks unless an
// exception is on its way.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  int rank() const;
  int ranks() const;
  int local_rank() const;              // within the node
  int local_ranks() const;             // ranks on this node
  std::string_view transport() const;  // "mpi", "tcp", "local", "self"

  // A communicator over `group` (ranks of this job; this rank is group.ranks[group.index]) for tensors on `device`. Called by every rank of
  // the group; ranks that make several with the same members make them in the same order. `name` appears in reports ("x", "z+data").
  // CPU: our rings on the transport. CUDA: NCCL (BackendError when it is not built in). One rank: self.
  std::unique_ptr<Communicator> communicator(const Group& group, const std::string& name, c10::Device device = c10::kCPU);

  // Over all ranks of the job, on the CPU.
  Communicator& world();

  EngineCounters engine_counters() const;

  // Ends the whole job: every process is gone within seconds, exit status not 0. Does not return.
  [[noreturn]] void abort(int exit_status) noexcept;

  struct Impl;
  explicit Environment(std::unique_ptr<Impl> impl);  // for run_local

 private:
  std::unique_ptr<Impl> impl_;
};

// Runs `body` on `ranks` threads of this process, each with an Environment of its own over the in-process transport; for tests, oracles and
// ThreadSanitizer. When one throws, the others' waits end with an error, and the first exception is thrown here.
void run_local(int ranks, const std::function<void(Environment&)>& body);

}  // namespace axonn
