// The rings of a layout, and the terms of a pass on them.
#include <cmath>
#include <iostream>

#include <axonn/core/text.hpp>

#include "explain/explained_job.hpp"

namespace {

using axonn::Axis;
using axonn::AxisLink;
using axonn::bytes_text;
using axonn::CollectiveSeconds;
using axonn::GridShape;
using axonn::LayerWork;
using axonn::WorkSplit;

// GB/s at which (G-1)/G of the buffer moves.
double effective_gbps(const AxisLink& link, int size) { return (size - 1.0) / size / link.seconds_per_byte / 1e9; }

void print_term(const ExplainedJob& job, const char* name, Axis axis, double factor, double bytes, int64_t count,
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
void print_data_term(const ExplainedJob& job, const LayerWork& layer, double bytes) {
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

void print_exchanges(const ExplainedJob& job, const LayerWork& layer) {
  if (!job.trainer()) return;
  if (const auto context = job.context(layer); context.forward > 0)
    std::cout << "    keys and values of the context: forward " << seconds_text(context.forward) << ", backward "
              << seconds_text(context.backward) << "\n";
  if (const auto rows = job.rows(layer); rows.forward > 0)
    std::cout << "    rows of queries divided over " << to_string(other_tensor_axis(layer.split_axis())) << ": forward "
              << seconds_text(rows.forward) << ", backward " << seconds_text(rows.backward) << "\n";
  const auto once =
      layer_exchanges(layer, job.layout.grid, job.layout.links, job.tokens(), job.bytes(), job.gradient_bytes());
  if (once.forward + once.backward == 0) return;
  const char* what = layer.moved > 0 ? "brought to the other axis" : "statistics of split groups";
  std::cout << "    " << what << ": forward " << seconds_text(once.forward) << ", backward "
            << seconds_text(once.backward) << "\n";
}

void print_stream_gather(const ExplainedJob& job, const LayerWork& layer) {
  if (const double gather = job.stream(layer); gather > 0)
    std::cout << "    rows of the stream divided over x: backward gathers the input in " << seconds_text(gather)
              << "\n";
}

std::string kernel_text(const ExplainedJob& job) {
  const double seconds = job.machine.kernel_seconds;
  return seconds > 0 ? " + " + fixed_text(seconds * 1e6, 1) + " us" : "";
}

}  // namespace

void print_links(const ExplainedJob& job) {
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
  if (const int64_t ranks = job.layout.context.ranks; ranks > 1)
    std::cout << "  context: " << ranks << " ranks at " << fixed_text(job.layout.context_link.gbps, 2) << " GB/s, hops "
              << fixed_text(job.layout.context_link.latency_seconds * 1e6, 1) << " us\n";
}

void print_layer(const ExplainedJob& job, const LayerWork& layer) {
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
  print_stream_gather(job, layer);
  print_data_term(job, layer, block / grid.z * job.gradient_bytes());
}

void print_messages(const ExplainedJob& job) {
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
