#include "axonn/core/env.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "axonn/core/error.hpp"

namespace axonn::env {
namespace {

constexpr std::array kTable = {
    Variable{"AXONN_LOG", "debug|info|warn|error|off", "info", "lowest level of the log lines on standard error"},
    Variable{"AXONN_LOG_ALL_RANKS", "0|1", "0", "1: every rank writes its log lines, not only rank 0"},
    Variable{"AXONN_TIMEOUT_SECONDS", "whole seconds", "600",
             "a collective that makes no progress for this time ends the job with a report"},
    Variable{"AXONN_SHARED_MEMORY", "0|1", "1",
             "0: ranks of one node exchange messages instead of sharing memory (slower)"},
    Variable{"AXONN_TRANSPORT", "mpi|tcp", "by the launcher",
             "tcp: TCP, where MPI started the ranks too; mpi: MPI, where no launcher of it was recognised"},
    Variable{"AXONN_CHECK_LAYOUTS", "0|1", "0",
             "1: find what a wrapped module computes wrongly with split outputs (debugging; slower)"},
    Variable{"AXONN_INIT_FILE", "path", "none",
             "a file that all hosts see, by which the ranks of a job over TCP find each other"},
    Variable{"AXONN_SECRET", "any text", "none",
             "the same on all ranks: other processes cannot join the job (TCP start-up)"},
    Variable{"AXONN_PROGRESS", "bar|lines", "by standard output",
             "bar: one progress line, redrawn; lines: one line every few seconds"},
    Variable{"TERM", "set by the terminal", "a terminal redraws", "dumb: the terminal cannot redraw a line"},
    Variable{"RANK", "0 .. WORLD_SIZE-1", "one process",
             "this process's rank when this build's MPI did not start it (TCP start-up)"},
    Variable{"WORLD_SIZE", "ranks", "one process", "number of processes of the job (TCP start-up)"},
    Variable{"LOCAL_RANK", "0 ..", "RANK", "rank within the node; chooses the GPU under --device cuda"},
    Variable{"LOCAL_WORLD_SIZE", "ranks", "WORLD_SIZE", "processes on this node; the node's cores are divided by it"},
    Variable{"MASTER_ADDR", "host or address", "127.0.0.1", "where rank 0 listens during TCP start-up"},
    Variable{"MASTER_PORT", "port", "29500", "port of rank 0 during TCP start-up"},
    Variable{"OMP_NUM_THREADS", "threads", "cores of the node / ranks on it", "threads that compute in this process"},
    Variable{"OMPI_COMM_WORLD_SIZE", "set by mpirun", "not under mpirun", "processes of Open MPI's job"},
    Variable{"OMPI_COMM_WORLD_RANK", "set by mpirun", "not under mpirun", "this process's rank in Open MPI's job"},
    Variable{"OMPI_COMM_WORLD_LOCAL_SIZE", "set by mpirun", "OMPI_COMM_WORLD_SIZE",
             "processes on this node, if AXONN_TRANSPORT=tcp"},
    Variable{"OMPI_COMM_WORLD_LOCAL_RANK", "set by mpirun", "OMPI_COMM_WORLD_RANK",
             "rank within the node, if AXONN_TRANSPORT=tcp"},
    Variable{"TORCHELASTIC_USE_AGENT_STORE", "set by torchrun", "not under torchrun",
             "True: ranks find each other in the store at MASTER_ADDR and MASTER_PORT"},
    Variable{"TORCHELASTIC_RUN_ID", "set by torchrun", "none", "name of the job in this store"},
    Variable{"TORCHELASTIC_RESTART_COUNT", "set by torchrun", "0", "number of times torchrun has restarted the job"},
    Variable{"SLURM_STEP_NUM_TASKS", "set by srun", "not under srun",
             "number of processes of the job, if nothing above is set"},
    Variable{"SLURM_PROCID", "set by srun", "0", "rank of this process under srun"},
    Variable{"SLURM_LOCALID", "set by srun", "SLURM_PROCID", "rank within the node under srun"},
    Variable{"SLURM_NODEID", "set by srun", "0", "number of this node in the job step"},
    Variable{"SLURM_STEP_TASKS_PER_NODE", "set by srun", "SLURM_STEP_NUM_TASKS", "processes on each node"},
    Variable{"SLURM_STEP_NODELIST", "set by srun", "127.0.0.1", "its first host is rank 0's"},
    Variable{"SLURM_LAUNCH_NODE_IPADDR", "set by srun", "none", "tried where that host's name has no address"},
    Variable{"SLURM_JOB_ID", "set by srun", "0",
             "with the step, it gives rank 0's port; it stands in the lock of --out"},
    Variable{"SLURM_STEP_ID", "set by srun", "0", "with the job, it gives rank 0's port"},
    Variable{
        "SLURM_RESTART_COUNT", "set by Slurm", "0",
        "number of times Slurm has started the job again; with the job, it tells whose lock of --out is left over"},
    Variable{"PMI_RANK", "set by Hydra, srun --mpi=pmi2, PALS", "not under PMI",
             "this process's rank; with a build of MPICH's family it tells that MPI started this process"},
    Variable{"PMI_SIZE", "set by Hydra, srun --mpi=pmi2, PALS", "not under PMI",
             "number of processes; over TCP it needs AXONN_INIT_FILE or MASTER_ADDR"},
    Variable{"PMI_ID", "set by Hydra", "not under PMI", "as PMI_RANK, where ranks speak to Hydra by a port"},
    Variable{"MPI_LOCALNRANKS", "set by Hydra", "PMI_SIZE", "processes on this node over TCP"},
    Variable{"MPI_LOCALRANKID", "set by Hydra", "PMI_RANK", "rank within the node over TCP"},
    Variable{"PMI_LOCAL_SIZE", "set by PALS", "PMI_SIZE", "as MPI_LOCALNRANKS"},
    Variable{"PMI_LOCAL_RANK", "set by PALS", "PMI_RANK", "as MPI_LOCALRANKID"},
    Variable{"PALS_RANKID", "set by PALS", "not under PALS",
             "as PMI_RANK, on systems of Cray (mpiexec, srun --mpi=cray_shasta)"},
    Variable{"PALS_LOCAL_RANKID", "set by PALS", "unknown", "as MPI_LOCALRANKID, where MPI started this process"},
    Variable{"PMIX_RANK", "set by srun --mpi=pmix", "not under PMIx",
             "this process's rank; it tells that MPI started this process"},
    Variable{"AXONN_NCCL_RANKS_PER_ROOT", "ranks", "128",
             "ranks of a group that one of them brings together when NCCL starts (2.23 and newer)"},
    Variable{"NCCL_HOSTID", "any text", "the host's own",
             "ranks with different ones may share a GPU, for a test (--device cuda)"},
};

}  // namespace

std::span<const Variable> table() { return kTable; }

std::optional<std::string> get(std::string_view name) {
  AXONN_ASSERT(std::ranges::any_of(kTable, [&](const auto& v) { return v.name == name; }), "environment variable ",
               name);
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int> get_int(std::string_view name) {
  const auto text = get(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  AXONN_CHECK(error == std::errc() && end == text->data() + text->size(), "core.env", "environment variable ", name,
              " must be a whole number, got '", *text, "'");
  return value;
}

bool is_on(std::string_view name) { return get_int(name).value_or(0) != 0; }

}  // namespace axonn::env
