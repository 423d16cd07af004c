// The command explain: every term of one grid.
#include <cmath>
#include <iostream>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

#include "output/columns.hpp"
#include "planner_commands.hpp"

namespace {

using axonn::Axis;
using axonn::AxisLink;
using axonn::bytes_text;
using axonn::CollectiveSeconds;
using axonn::GridShape;
using axonn::LayerWork;
using axonn::PlannedLayout;
using axonn::WorkSplit;
using axonn::detail::concatenate;

std::string seconds_text(double seconds) { return fixed_text(seconds, 6) + " s"; }

// GB/s at which (G-1)/G of the buffer moves.
double effective_gbps(const AxisLink& link, int size) { return (size - 1.0) / size / link.seconds_per_byte / 1e9; }

struct Job {
  const axonn::NetworkModel& network;
  const axonn::Machine& machine;
  const axonn::SearchOptions& options;
  const PlannedLayout& layout;

  bool trainer() const { return options.coefficients == axonn::Coefficients::trainer; }
  double passes() const { return trainer() ? static_cast<double>(layout.micro_batches) : 1; }
  double tokens() const {  // per rank per pass
    return static_cast<double>(options.batch_tokens) / (static_cast<double>(layout.grid.z) * layout.grid.data) /
           passes();
  }
  axonn::StepSettings settings() const {
    return {.recompute = layout.recompute,
            .sequence_norms = options.sequence_norms,
            .block_messages = options.block_messages ? network.blocks : 0,
            .precision = layout.precision};
  }
  double bytes() const { return static_cast<double>(element_bytes(layout.precision)); }
  // Of a layer's occurrences in one pass. Where blocks are messages, none of a layer are over Z.
  CollectiveSeconds collectives(const LayerWork& layer) const {
    CollectiveSeconds once = layer_collectives(layer, layout.grid, layout.links, tokens(), bytes(), gradient_bytes());
    if (options.block_messages) once.all_gather_z = once.reduce_scatter_z = 0;
    return once;
  }
  double gradient_bytes() const { return trainer() ? static_cast<double>(state_bytes(layout.precision)) : bytes(); }
};

void print_links(const Job& job) {
  std::cout << "rings (" << to_string(job.options.mode) << ")\n";
  for (const Axis axis : axonn::kAxes) {
    const AxisLink& link = link_of(job.layout.links, axis);
    const int size = job.layout.grid[axis];
    if (size == 1) continue;
    std::cout << "  " << to_string(axis) << ": " << size << " ranks at " << fixed_text(link.gbps, 2) << " GB/s";
    if (link.multi_level)
      std::cout << "; level by level as fast as " << fixed_text(effective_gbps(link, size), 2) << " GB/s";
    if (link.latency_seconds > 0) std::cout << ", hops " << fixed_text(link.latency_seconds * 1e6, 1) << " us";
    if (link.ll128_latency_seconds > 0 && std::isfinite(link.ll128_latency_seconds))
      std::cout << " (LL128: " << fixed_text(link.ll128_latency_seconds * 1e6, 1) << " us)";
    if (std::isfinite(link.tree_latency_seconds))
      std::cout << ", all-reduces by trees " << fixed_text(link.tree_latency_seconds * 1e6, 1) << " us";
    std::cout << "\n";
  }
  if (const int64_t ranks = job.options.context.ranks; ranks > 1)
    std::cout << "  context: " << ranks << " ranks at " << fixed_text(job.layout.context_link.gbps, 2) << " GB/s, hops "
              << fixed_text(job.layout.context_link.latency_seconds * 1e6, 1) << " us\n";
}

void print_term(const Job& job, const char* name, Axis axis, double factor, double bytes, int64_t count,
                double seconds) {
  const int size = job.layout.grid[axis];
  if (size == 1 || seconds == 0) return;
  const AxisLink& link = link_of(job.layout.links, axis);
  if (factor == 2 && link.tree_seconds(bytes) < 2 * link.gather_seconds(bytes)) {
    std::cout << "    " << name << " " << to_string(axis) << ": " << count << " x (by trees: 2 x " << bytes_text(bytes)
              << " / " << fixed_text(2 / link.tree_seconds_per_byte / 1e9, 2) << " GB/s + "
              << fixed_text(link.tree_latency_seconds * 1e6, 1) << " us) = " << seconds_text(seconds) << "\n";
    return;
  }
  const bool ll128 = link.ll128_seconds(bytes) < link.simple_seconds(bytes);  // 120 bytes of data in 128
  const double latency = ll128 ? link.ll128_latency_seconds : link.latency_seconds;
  std::cout << "    " << name << " " << to_string(axis) << ": " << count << " x ("
            << (ll128 ? "by LL128: 16/15 x " : "") << (factor == 2 ? "2 x " : "") << size - 1 << "/" << size << " x "
            << bytes_text(bytes) << " / " << fixed_text(effective_gbps(link, size), 2) << " GB/s";
  if (latency > 0) std::cout << " + " << fixed_text(factor * latency * 1e6, 1) << " us";
  std::cout << ") = " << seconds_text(seconds) << "\n";
}

// Without latencies: in the trainer they belong to messages, not to layers.
void print_data_term(const Job& job, const LayerWork& layer, double bytes) {
  const AxisLink& link = link_of(job.layout.links, Axis::data);
  if (job.layout.grid.data == 1 || !layer.owns_weight) return;
  const double seconds = 2 * static_cast<double>(layer.count) * link.seconds_per_byte * bytes;
  const int size = job.layout.grid.data;
  std::cout << "    all-reduce data: " << layer.count << " x (2 x " << size - 1 << "/" << size << " x "
            << bytes_text(bytes) << " / " << fixed_text(effective_gbps(link, size), 2)
            << " GB/s) = " << seconds_text(seconds) << "\n";
}

std::string split_text(const LayerWork& layer) {
  if (layer.split != WorkSplit::matrix) return std::string(to_string(layer.split_axis()));
  return layer.whole_input || layer.whole_output
             ? std::string(to_string(layer.whole_input ? layer.out_axis() : layer.in_axis()))
             : "x y";
}

axonn::ExchangeSeconds context_of(const Job& job, const LayerWork& layer) {
  return context_exchange(layer, job.layout.grid, job.layout.context_link, job.tokens(), job.bytes(),
                          job.options.context);
}

void print_exchanges(const Job& job, const LayerWork& layer) {
  if (!job.trainer()) return;
  if (const auto context = context_of(job, layer); context.forward > 0)
    std::cout << "    keys and values of the context: forward " << seconds_text(context.forward) << ", backward "
              << seconds_text(context.backward) << "\n";
  const auto once =
      layer_exchanges(layer, job.layout.grid, job.layout.links, job.tokens(), job.bytes(), job.gradient_bytes());
  if (once.forward + once.backward == 0) return;
  const char* what = layer.moved > 0 ? "brought to the other axis" : "statistics of split groups";
  std::cout << "    " << what << ": forward " << seconds_text(once.forward) << ", backward "
            << seconds_text(once.backward) << "\n";
}

std::string kernel_text(const Job& job) {
  const double seconds = job.machine.kernel_seconds;
  return seconds > 0 ? " + " + fixed_text(seconds * 1e6, 1) + " us" : "";
}

void print_layer(const Job& job, const LayerWork& layer) {
  const GridShape& grid = job.layout.grid;
  const double forward =
      static_cast<double>(layer.count) * layer_forward_seconds(layer, grid, job.machine, job.tokens(), job.settings());
  std::cout << "  " << layer.name;
  if (layer.count > 1) std::cout << ", " << layer.count << " times";
  if (layer.has_weight()) {
    std::cout << ": ";
    if (layer.taps > 1) std::cout << layer.taps << " x ";
    std::cout << layer.k << " x " << layer.n << (layer.transposed ? ", transposed" : "");
  }
  std::cout << "\n    forward: " << axonn::with_unit(job.tokens()) << " " << job.network.tokens << " x ("
            << axonn::with_unit(layer.flops) << " FLOP, " << axonn::with_unit(layer.elements) << " elements) / ("
            << split_text(layer) << ")" << kernel_text(job) << " = " << seconds_text(forward) << ", backward "
            << seconds_text(2 * forward) << "\n";
  if (!job.trainer() && !layer.in_block) return;
  if (!layer.has_weight()) {
    print_exchanges(job, layer);
    return;
  }
  const auto [block, output, input] = layer_buffers(layer, grid, job.tokens());
  const CollectiveSeconds once = job.collectives(layer);
  print_term(job, "all-gather", Axis::z, 1, block * job.bytes(), layer.count, once.all_gather_z);
  print_term(job, "reduce-scatter", Axis::z, 1, block * job.gradient_bytes(), layer.count, once.reduce_scatter_z);
  print_term(job, "forward all-reduce", layer.in_axis(), 2, output * job.bytes(), layer.count, once.all_reduce_forward);
  print_term(job, "backward all-reduce", layer.out_axis(), 2, input * job.bytes(), layer.count,
             once.all_reduce_backward);
  print_data_term(job, layer, block / grid.z * job.gradient_bytes());
}

struct NamedMessages {
  const char* name;
  axonn::BlockMessages messages;
};

// Nothing if each weight is a message, or if there are none over Z.
std::vector<NamedMessages> messages_of(const Job& job) {
  if (!job.options.block_messages || job.layout.grid.z == 1) return {};
  const auto [blocks, others] = messages_over_z(job.network.layers, job.layout.grid, job.settings());
  return {{"blocks", blocks}, {"other weights", others}};
}

void print_messages(const Job& job) {
  const AxisLink& link = link_of(job.layout.links, Axis::z);
  for (const auto& [name, messages] : messages_of(job)) {
    std::cout << "  " << name << ", together\n";
    const auto term = [&](const char* collective, double bytes) {
      print_term(job, collective, Axis::z, 1, messages.elements * bytes, messages.count, messages.seconds(link, bytes));
    };
    term("all-gather", job.bytes());
    term("reduce-scatter", job.gradient_bytes());
  }
}

void print_step(const Job& job) {
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

void print_memory(const Job& job) {
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

// Two layouts side by side: each part of their steps and of their memory.
void print_comparison(const PlannedLayout& one, const PlannedLayout& other) {
  std::vector<Column> columns = {{"", true}, {one.grid.to_string()}, {other.grid.to_string()}, {"difference"}};
  const auto row = [&](const char* name, double a, double b, const auto& text) {
    const std::string cells[] = {name, text(a), text(b), (b < a ? "-" : "+") + text(std::abs(b - a))};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
  };
  const auto seconds = [&](const char* name, double a, double b) { row(name, a, b, seconds_text); };
  const axonn::StepTime &mine = one.time, &its = other.time;
  seconds("forward", mine.forward, its.forward);
  seconds("backward", mine.backward, its.backward);
  seconds("optimizer", mine.optimizer, its.optimizer);
  seconds("longer by all-reduces", mine.exposed_all_reduce, its.exposed_all_reduce);
  seconds("longer by gathers and scatters", mine.exposed_gather_scatter, its.exposed_gather_scatter);
  seconds("longer by data", mine.exposed_data, its.exposed_data);
  if (mine.exposed_context + its.exposed_context > 0)
    seconds("longer by keys and values", mine.exposed_context, its.exposed_context);
  seconds("a step", mine.seconds(), its.seconds());
  const auto bytes = [&](const char* name, int64_t a, int64_t b) {
    row(name, static_cast<double>(a), static_cast<double>(b), bytes_text);
  };
  bytes("weights, gradients, optimizer",
        one.memory.weight_bytes + one.memory.gradient_bytes + one.memory.optimizer_bytes,
        other.memory.weight_bytes + other.memory.gradient_bytes + other.memory.optimizer_bytes);
  bytes("gathered and cached", one.memory.gathered_bytes + one.cache_bytes,
        other.memory.gathered_bytes + other.cache_bytes);
  bytes("activations", one.memory.activation_bytes, other.memory.activation_bytes);
  bytes("a GPU's memory", one.memory_bytes(), other.memory_bytes());
  print_columns(std::cout, columns);
  std::cout << "\npasses: " << micro_text(one) << " and " << micro_text(other) << "\n";
}

nlohmann::ordered_json explained_json(const Job& job) {
  nlohmann::ordered_json all = ranking_inputs_json(job.network, job.machine, job.options), layers, rings;
  for (const Axis axis : axonn::kAxes) {
    const AxisLink& link = link_of(job.layout.links, axis);
    if (job.layout.grid[axis] == 1) continue;
    rings[std::string(to_string(axis))] = {{"ranks", job.layout.grid[axis]},
                                           {"gbps", link.gbps},
                                           {"seconds_per_byte", link.seconds_per_byte},
                                           {"latency_seconds", link.latency_seconds},
                                           {"level_by_level", link.multi_level}};
  }
  for (const LayerWork& layer : job.network.layers) {
    const CollectiveSeconds once = job.collectives(layer);
    const axonn::ExchangeSeconds context = context_of(job, layer);
    const double forward = static_cast<double>(layer.count) *
                           layer_forward_seconds(layer, job.layout.grid, job.machine, job.tokens(), job.settings());
    layers.push_back({{"name", layer.name},
                      {"count", layer.count},
                      {"forward_seconds", forward},
                      {"all_gather_z", once.all_gather_z},
                      {"reduce_scatter_z", once.reduce_scatter_z},
                      {"all_reduce_forward", once.all_reduce_forward},
                      {"all_reduce_backward", once.all_reduce_backward},
                      {"all_reduce_data", once.all_reduce_data},
                      {"context_forward", context.forward},
                      {"context_backward", context.backward}});
  }
  all["layout"] = layout_json(job.layout);
  all["rings"] = std::move(rings);
  for (const auto& [name, messages] : messages_of(job)) {
    const AxisLink& link = link_of(job.layout.links, Axis::z);
    all["messages_over_z"].push_back({{"name", name},
                                      {"count", messages.count},
                                      {"elements", messages.elements},
                                      {"all_gather_z", messages.seconds(link, job.bytes())},
                                      {"reduce_scatter_z", messages.seconds(link, job.gradient_bytes())}});
  }
  all["one_pass"] = std::move(layers);
  return all;
}

}  // namespace

int run_explain(const PlannerOptions& line) {
  const auto network = line.planned_network();
  const auto machine = axonn::find_machine(line.machine);
  const auto options = line.search(network);
  const PlannedLayout layout = plan_grid(network, machine, options, axonn::parse_grid_shape(line.grid));
  const Job job = {network, machine, options, layout};
  if (!line.against.empty()) {
    AXONN_CHECK(!line.json, "axonn_config.explain", "--against prints a table: remove --json");
    const PlannedLayout other = plan_grid(network, machine, options, axonn::parse_grid_shape(line.against));
    std::cout << network.name << " on " << machine.name << "; " << band_text(machine) << "\n\n";
    print_comparison(layout, other);
    return 0;
  }
  if (line.json) {
    std::cout << explained_json(job).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    return 0;
  }
  std::cout << network.name << " on " << layout.grid.to_string() << " of " << machine.name << ", "
            << (layout.placement ? "levels from the inside: " + layout.placement->to_string()
                                 : "nodes end within an axis")
            << "\n"
            << what_if_text(options) << layout.micro_batches << " micro-batches x " << layout.micro_batch << " "
            << network.samples << " per rank, " << to_string(layout.precision)
            << (layout.checkpoint() ? ", blocks run again" : ", nothing run again") << ", "
            << fixed_text(100 * layout.cached, 0) << "% of the gathered weights cached; products at "
            << fixed_text(100 * machine.gemm_efficiency, 0) << "% of "
            << fixed_text(machine.peak_flops(layout.precision) / 1e12, 1) << " TFLOP/s, elements at "
            << fixed_text(machine.memory_bandwidth_gbps, 0) << " GB/s\n";
  print_links(job);
  std::cout << "\none pass, each collective once (seconds of all occurrences; collectives counted as "
            << to_string(options.coefficients) << ": " << fixed_text(job.passes(), 0)
            << (job.passes() == 1 ? " pass" : " passes") << " per step)\n";
  for (const LayerWork& layer : network.layers) print_layer(job, layer);
  print_messages(job);
  print_step(job);
  print_memory(job);
  return 0;
}
