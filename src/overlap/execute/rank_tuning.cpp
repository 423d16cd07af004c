#include "axonn/overlap/execute/rank_tuning.hpp"

#include <chrono>
#include <fstream>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "axonn/core/env.hpp"
#include "core/cores.hpp"

namespace axonn {
using namespace coconet;

void share_cores(const Environment& environment) {
  if (env::get("OMP_NUM_THREADS")) return;
  at::set_num_threads(cores_of_rank(environment.local_ranks()));
}

tune::TunerHooks rank_hooks(Communicator& everyone) {
  return {.prepare = {},
          .clock =
              [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); },
          .agreed =
              [&everyone](double number) {
                const at::Tensor all = at::full({1}, number, at::kDouble);
                everyone.all_reduce(all, ReduceOp::max).wait();
                return all.item<double>();
              }};
}

RunAxes axes_to_try(Communicator& everyone) {
  RunAxes axes;
  const auto most = static_cast<int>(rank_hooks(everyone).agreed(at::get_num_threads()));
  for (int threads = most / 2; threads > 0; threads /= 2) axes.threads.push_back(threads);
  axes.segment_bytes = {16 << 10, 32 << 10};
  if (everyone.sends_messages()) axes.segment_bytes.insert(axes.segment_bytes.end(), {128 << 10, 512 << 10});
  axes.part_rows = {64, 128, 512};
  return axes;
}

std::string machine_name(int local_ranks) {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown processor";
  int processors = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("processor")) ++processors;
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) model = line.substr(line.find(':') + 2);
  }
  return model + ", " + std::to_string(processors) + " processors, " + std::to_string(local_ranks) +
         " ranks per node, " + std::to_string(at::get_num_threads()) + " threads per rank";
}

}  // namespace axonn
