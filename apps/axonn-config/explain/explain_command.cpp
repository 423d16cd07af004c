// The command explain: every term of one grid.
#include <iostream>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

#include "explain/explained_job.hpp"

namespace {

using axonn::bytes_text;
using axonn::CollectiveSeconds;
using axonn::PlannedLayout;

void print_step(const ExplainedJob& job) {
  const axonn::StepTime& time = job.layout.time;
  const CollectiveSeconds& all = time.communication;
  const auto line = [](const std::string& what, double seconds) {
    std::cout << "  " << what << " " << seconds_text(seconds) << "\n";
  };
  std::cout << "\na step\n";
  line("forward             ", time.forward);
  line("backward            ", time.backward);
  line("optimizer           ", time.optimizer);
  if (time.bubble > 0) line("pipeline waits      ", time.bubble);
  line("all-gathers z       ", all.all_gather_z);
  line("reduce-scatters z   ", all.reduce_scatter_z);
  line("forward all-reduces ", all.all_reduce_forward);
  line("backward all-reduces", all.all_reduce_backward);
  if (all.context > 0) line("keys and values     ", all.context);
  const double messages = time.data_messages;
  line("data all-reduces    ", all.all_reduce_data);
  if (messages > 0) std::cout << "    in " << fixed_text(messages, 0) << " messages\n";
  std::cout << "  communication " << seconds_text(all.total()) << ", of which the step is longer by all-reduces "
            << seconds_text(time.exposed_all_reduce) << " + gathers and scatters "
            << seconds_text(time.exposed_gather_scatter) << " + data " << seconds_text(time.exposed_data)
            << (time.exposed_context > 0 ? " + keys and values " + seconds_text(time.exposed_context) : "")
            << "\n  seconds of a step = " << seconds_text(time.compute()) << " + " << seconds_text(time.exposed())
            << " = " << seconds_text(time.seconds()) << "\n  " << band_text(job.machine) << "\n  "
            << axonn::with_unit(job.layout.tokens_per_second) << " " << job.network.tokens << "/s, "
            << fixed_text(100 * job.layout.model_utilisation, 1) << "% of the peak ("
            << fixed_text(100 * job.layout.hardware_utilisation, 1) << "% with what is run again)\n";
}

void print_memory(const ExplainedJob& job) {
  const axonn::MemoryPrediction& memory = job.layout.memory;
  const auto line = [](const char* what, int64_t bytes) {
    std::cout << "  " << what << " " << bytes_text(static_cast<double>(bytes)) << "\n";
  };
  std::cout << "\nmemory of a GPU\n";
  line("weights and masters ", memory.weight_bytes);
  line("gradients           ", memory.gradient_bytes);
  line("optimizer           ", memory.optimizer_bytes);
  line("gathered, scattered ", memory.gathered_bytes);
  line("cache               ", job.layout.cache_bytes);
  line("activations         ", memory.activation_bytes);
  line("logits or one block ", std::max(memory.logits_bytes, memory.block_bytes));
  std::cout << "  total " << bytes_text(static_cast<double>(job.layout.memory_bytes())) << " of "
            << bytes_text(job.machine.memory_bytes() * (1 - job.options.memory_margin)) << "\n";
}

}  // namespace

int run_explain(const PlannerOptions& line) {
  const auto network = line.planned_network();
  const auto machine = axonn::find_machine(line.machine);
  const auto options = line.search(network);
  const PlannedLayout layout = plan_grid(network, machine, options, axonn::parse_grid_shape(line.grid));
  const ExplainedJob job = {network, machine, options, layout};
  if (!line.against.empty()) {
    AXONN_CHECK(!line.output.json, "axonn_config.explain", "--against prints a table: remove --json");
    const PlannedLayout other = plan_grid(network, machine, options, axonn::parse_grid_shape(line.against));
    std::cout << network.name << " on " << machine.name << "; " << band_text(machine) << "\n\n";
    print_comparison(layout, other);
    return 0;
  }
  if (line.output.json) {
    print_json(std::cout, explained_json(job));
    return 0;
  }
  std::cout << network.name << " on " << layout.grid.to_string() << " of " << machine.name << ", "
            << (layout.placement ? "levels from the inside: " + layout.placement->to_string()
                                 : "nodes end within an axis")
            << "\n"
            << what_if_text(options) << layout.micro_batches << " micro-batches x " << layout.micro_batch << " "
            << network.samples << " per rank, " << to_string(layout.precision)
            << (layout.checkpoint() ? ", blocks run again" : ", nothing run again")
            << (layout.attention_rows ? ", rows of queries divided" : "")
            << (layout.norm_rows ? ", rows of norms divided" : "") << context_text(layout.context, ", ") << ", "
            << fixed_text(100 * layout.cached, 0) << "% of the gathered weights cached; products at "
            << fixed_text(100 * machine.gemm_efficiency, 0) << "% of "
            << fixed_text(machine.peak_flops(layout.precision) / 1e12, 1) << " TFLOP/s, elements at "
            << fixed_text(machine.memory_bandwidth_gbps, 0) << " GB/s\n";
  print_links(job);
  std::cout << "\none pass, each collective once (seconds of all occurrences; collectives counted as "
            << to_string(options.coefficients) << ": " << fixed_text(job.passes(), 0)
            << (job.passes() == 1 ? " pass" : " passes") << " per step)\n";
  for (const axonn::LayerWork& layer : network.layers) print_layer(job, layer);
  print_messages(job);
  print_step(job);
  print_memory(job);
  return 0;
}
