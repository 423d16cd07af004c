#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/engine_counters.hpp"
#include "axonn/comm/step_moment.hpp"

namespace axonn {

// One process's place in its job, made once in main. It owns start-up, the progress engine and
// finalisation.
// The launcher selects the transport (launch.hpp): MPI under a launcher of the MPI that axonn was
// built with, TCP under any other, and without a launcher the job has one rank. There is no
// fallback: BackendError when the selected transport is not built in or fails, UserError when
// nothing says where the ranks meet, or the launcher speaks to another MPI.
// A program without handlers for signals of a crash gets those of crash_report.hpp. UserError when
// the process has loaded another LibTorch than axonn was built with, or two OpenMP run times.
// Every rank of the job constructs and destroys it. The destructor calls finish(), unless an
// exception is propagating. If that fails, it logs the error and ends the whole job as abort(1)
// does: a job that lost a rank is never one that ended with status 0.
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
  std::string_view library() const;    // that the transport calls: "Open MPI v4.1.4"; empty: none

  // A communicator over `group` for tensors on `device`. `group` names ranks of this job, and this
  // rank is group.ranks[group.index]. Every rank of the group calls it, and it returns when all
  // have: they agree on a channel. Ranks that share several groups make them in the same order.
  // `name` appears in reports ("x", "z+data").
  // CPU tensors use our own collectives, CUDA tensors use NCCL (BackendError when it is not built
  // in). A group of one rank only copies.
  // Its calls say where `moment` is when they are made: give it where somebody counts steps.
  std::unique_ptr<Communicator> communicator(const Group& group, const std::string& name,
                                             c10::Device device = c10::kCPU,
                                             std::shared_ptr<const StepMoment> moment = nullptr);

  // Over all ranks of the job, on the CPU.
  Communicator& world();

  // The directory for rank-0003.jsonl, this rank's last collectives, if the job hangs. It is made
  // then. Without this call nothing is written.
  void set_flight_directory(const std::filesystem::path& directory);

  // BackendError when the job has failed. After a wait for a device: a collective that was ended
  // leaves its result undefined.
  void check_running() const;

  // Whether the job hung, and rank 0 has logged a report with the error that every call now throws.
  bool hang_reported() const;

  EngineCounters engine_counters() const;

  // Held by whoever runs a step. UserError while another thread holds one: ranks would not agree on
  // the order of the calls of two threads. Of any thread; it may outlive the environment.
  std::shared_ptr<void> take_turn();

  // Waits until all ranks are here; no collective call follows. Called once, or by the destructor.
  // BackendError when a rank does not come.
  void finish();

  // Ends the whole job: every process exits within seconds, with a status other than 0. Does not
  // return.
  [[noreturn]] void abort(int exit_status) noexcept;

  struct Impl;
  explicit Environment(std::unique_ptr<Impl> impl);  // for run_local

 private:
  std::unique_ptr<Impl> impl_;
};

// Runs `body` on `ranks` threads of this process, each with its own Environment over the in-process
// transport. It is for tests, oracles and ThreadSanitizer. When one thread throws, the waits of the
// others end with an error, and the first exception is rethrown here.
void run_local(int ranks, const std::function<void(Environment&)>& body);

}  // namespace axonn
