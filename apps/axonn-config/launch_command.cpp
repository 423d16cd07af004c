// The command launch: a batch script for one grid.
#include <algorithm>
#include <cctype>
#include <iostream>

#include <axonn/core/error.hpp>
#include <axonn/perfmodel/network_file.hpp>

#include "planner_commands.hpp"

namespace {

using axonn::PlannedLayout;

void print_configuration(const PlannerOptions& line, const axonn::NetworkModel& network,
                         const axonn::SearchOptions& options, const PlannedLayout& layout) {
  const int64_t batch = options.batch_tokens / network.tokens_per_sample;
  std::cout << axonn::network_toml(line.network.shape()) << "\n[run]\ngrid = \"" << layout.grid.to_string()
            << "\"\norder = \"" << axonn::to_string(layout.order.value_or(axonn::kDefaultOrder)) << "\"\ndtype = \""
            << to_string(layout.precision) << "\"\ndevice = \"cuda\"\n\n[overlap]\noverlap = \""
            << to_string(line.training.overlap) << "\"\ngather_cache = \"" << layout.cache_bytes
            << "\"\nprefetch = " << layout.prefetch << (layout.attention_rows ? "\nattention_rows = \"on\"" : "")
            << (layout.norm_rows ? "\nnorm_rows = \"on\"" : "");
  if (layout.context.ranks > 1) std::cout << "\ncontext = " << layout.context.ranks;
  std::cout << "\n\n[train]\nbatch = " << batch << "\nmicro_batch = " << layout.micro_batch
            << "\nactivation_checkpoint = " << (layout.checkpoint() ? 1 : 0) << "\noptimizer = \""
            << to_string(line.training.optimizer) << "\"\noptimizer_schedule = \"" << to_string(line.training.schedule)
            << "\"\n";
}

std::string upper_case(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return word;
}

// The node of each rank of the trainer. Rank i is grid index i.
std::vector<int> nodes_of_ranks(const PlannedLayout& layout, int64_t node) {
  axonn::Placement nodes = axonn::rank_map(*layout.placement);
  for (int& rank : nodes) rank = static_cast<int>(rank / node);
  return nodes;
}

void print_map(const std::vector<int>& nodes) {
  std::cout << "# No order of axes puts the ranks where the plan wants them: rank i runs on node nodes[i] of the "
               "allocation.\nnodes=(";
  for (size_t rank = 0; rank < nodes.size(); ++rank)
    std::cout << (rank == 0 ? "" : rank % 40 == 0 ? "\n  " : " ") << nodes[rank];
  std::cout << ")\n";
}

void print_srun(int64_t gpus, int64_t node, const std::vector<int>& nodes) {
  std::cout << "export SLURM_PMIX_FENCE=ring\n";
  if (nodes.empty()) {
    std::cout << "exec srun --mpi=pmix --kill-on-bad-exit=1 --ntasks=" << gpus << " --ntasks-per-node=" << node
              << " --distribution=block --cpu-bind=cores \"$program\" --config \"$config\" \"$@\"\n";
    return;
  }
  print_map(nodes);
  std::cout << "mapfile -t hosts < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
               "export SLURM_HOSTFILE=$PWD/hosts-$SLURM_JOB_ID\n"
               "for node in \"${nodes[@]}\"; do echo \"${hosts[node]}\"; done >\"$SLURM_HOSTFILE\"\n"
               "exec srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="
            << gpus << " --distribution=arbitrary --cpu-bind=cores \"$program\" --config \"$config\" \"$@\"\n";
}

void print_mpirun(int64_t gpus, int64_t node, const std::vector<int>& nodes) {
  if (nodes.empty()) {
    std::cout << "exec mpirun -n " << gpus << " --map-by ppr:" << node
              << ":node --bind-to none \"$program\" --config \"$config\" \"$@\"\n";
    return;
  }
  print_map(nodes);
  std::cout << "declare -A slots\n"
               "for rank in \"${!nodes[@]}\"; do\n"
               "  node=${nodes[rank]}\n"
               "  slot=${slots[$node]:-0}\n"
               "  slots[$node]=$((slot + 1))\n"
               "  echo \"rank $rank=+n$node slot=$slot\"\n"
               "done >ranks.txt\n"
               "exec mpirun -n "
            << gpus << " --rankfile ranks.txt \"$program\" --config \"$config\" \"$@\"\n";
}

}  // namespace

int run_launch(const PlannerOptions& line) {
  line.refuse_what_if();
  const auto network = line.network.network();
  AXONN_CHECK(!network.program.empty(), "axonn_config.launch", "no program of ours trains ", network.name,
              " yet: it has ", network.beyond_programs, "; the ranking and explain plan it");
  const auto machine = axonn::find_machine(line.machine);
  const PlannedLayout layout = plan_grid(network, machine, line.search(network), axonn::parse_grid_shape(line.grid));
  const int64_t gpus = layout.grid.ranks(), node = std::min(gpus, std::max<int64_t>(machine.node_size(), 1));
  const int64_t per_node = machine.levels.size() == 1 ? gpus : node;
  const std::vector<int> nodes = layout.order ? std::vector<int>() : nodes_of_ranks(layout, per_node);

  std::cout << "#!/bin/bash\n# " << network.name << " on grid " << layout.grid.to_string() << ": by the model "
            << fixed_text(layout.time.seconds(), 3) << " s per step.\n#   "
            << (line.launcher == Launcher::srun ? "sbatch" : "bash") << " run.sbatch --data DATA --out runs/mine\n";
  if (line.launcher == Launcher::srun)
    std::cout << "#SBATCH --nodes=" << gpus / per_node << "\n#SBATCH --ntasks-per-node=" << per_node
              << "\n#SBATCH --gpus-per-node=" << per_node << "\n#SBATCH --signal=USR1@120\n";
  std::cout << "set -euo pipefail\nprogram=${" << upper_case(network.program) << ":-build/release/bin/"
            << network.program << "}\nconfig=${CONFIG:-grid-" << layout.grid.to_string()
            << ".toml}\ncat >\"$config\" <<'TOML'\n";
  print_configuration(line, network, line.search(network), layout);
  std::cout << "TOML\n\n";
  if (line.launcher == Launcher::srun)
    print_srun(gpus, per_node, nodes);
  else
    print_mpirun(gpus, per_node, nodes);
  return 0;
}
