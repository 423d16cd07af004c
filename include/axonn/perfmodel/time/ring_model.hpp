#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "axonn/core/names.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/network/context_split.hpp"
#include "axonn/network/layer_table.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/placement/axis_placement.hpp"

// Seconds that a step's collectives take with ring algorithms (Singh et al., AxoNN 4D, section V).
// Bandwidths are in 1e9 bytes per second.
namespace axonn {

// The source of an axis's bandwidth.
enum class BandwidthMode : uint8_t {
  agnostic,  // the same for all axes: that of the job's outermost level (equations 1 to 9)
  aware,     // equation 10: shared by the rings that leave a node, axes in the grid's order
  measured,  // the machine's table
  exact,     // counts the rings over every link of the rank map, at every level, with hop latencies
};
template <>
struct Names<BandwidthMode> {
  static constexpr Named<BandwidthMode> all[] = {{"exact", BandwidthMode::exact},
                                                 {"agnostic", BandwidthMode::agnostic},
                                                 {"aware", BandwidthMode::aware},
                                                 {"measured", BandwidthMode::measured}};
};

// Costs of the collectives along one axis of G ranks, by the bytes of the whole buffer: an
// all-gather's output, a reduce-scatter's input, an all-reduce's buffer. A ring moves (G - 1) / G
// of it. Small buffers take protocol LL128, as NCCL chooses: its hops are shorter, and of 128 bytes
// that it moves 120 are data. An all-reduce of a small buffer over many nodes takes two binary
// trees: a chain in each node, up to the roots and down again, at 92% of LL128's bandwidth (NCCL's
// tuning table).
struct AxisLink {
  double seconds_per_byte = 0;  // one all-gather or reduce-scatter; an all-reduce takes both
  double latency_seconds = 0;   // one all-gather or reduce-scatter
  double ll128_latency_seconds = std::numeric_limits<double>::infinity();  // the same; infinite: no such protocol
  double tree_seconds_per_byte = 0;                                        // an all-reduce by trees
  double tree_latency_seconds = std::numeric_limits<double>::infinity();   // the same; infinite: no trees
  double gbps = 0;  // a flat ring's bandwidth; 0: the axis has one rank
  // Level by level instead: reduce-scatter and all-gather in the node, all-reduce among nodes.
  bool multi_level = false;

  double simple_seconds(double bytes) const { return seconds_per_byte * bytes + latency_seconds; }
  double ll128_seconds(double bytes) const {
    constexpr double kLl128Bytes = 128.0 / 120;
    return kLl128Bytes * seconds_per_byte * bytes + ll128_latency_seconds;
  }
  // Or a reduce-scatter.
  double gather_seconds(double bytes) const { return std::min(simple_seconds(bytes), ll128_seconds(bytes)); }
  double tree_seconds(double bytes) const { return tree_seconds_per_byte * bytes + tree_latency_seconds; }
  double all_reduce_seconds(double bytes) const { return std::min(2 * gather_seconds(bytes), tree_seconds(bytes)); }
};
using AxisLinks = std::array<AxisLink, 4>;  // by Axis
inline const AxisLink& link_of(const AxisLinks& links, Axis axis) { return links[static_cast<size_t>(axis)]; }

// Equations 1 to 3: a ring of `size` ranks at `gbps`.
AxisLink ring_link(int64_t size, double gbps);

// Modes agnostic, aware and measured, for ranks in this order, node after node. Latencies are those
// of the levels if `latency` is set, else 0 as in the paper (its assumption 3).
AxisLinks ordered_links(BandwidthMode mode, const GridShape& shape, const AxisOrder& order, const Machine& machine,
                        std::span<const int64_t> level_sizes, bool latency);

// Mode exact for a placement. A ring that leaves units of size S and has f members in each shares
// their link with S / f - 1 other rings. multi_level: every axis takes the cheaper of the flat ring
// and the collective level by level.
AxisLinks placed_links(const AxisPlacement& placement, const Machine& machine, bool multi_level, bool latency);

// The least of each cost (not `gbps`) over all placements of an axis of this size, whatever the
// other axes are: no placement's collectives take less. `size` divides the product of the levels.
AxisLink least_link(int64_t size, std::span<const int64_t> level_sizes, const Machine& machine, bool multi_level,
                    bool latency);

// The ring over the first `ranks` members of an axis, while all others of the machine are busy too:
// flat, with the other rings that leave the same units. `ranks` divides the axis.
AxisLink neighbours_link(const AxisPlacement& placement, Axis axis, int64_t ranks, const Machine& machine);

// Mode exact for any rank map and nodes of any size: node_of_rank[r] is the node of rank r. Rings
// visit node after node; the rings that leave a node share its link. The slowest group of an axis
// counts. Bandwidths and latencies are those of the machine's innermost level inside a node, of its
// outermost level between nodes.
AxisLinks counted_links(const Grid& grid, std::span<const int> node_of_rank, const Machine& machine, bool latency);

// Elements of one product's buffers on a rank with `units` tokens or images: m / (Gz Gdata).
struct LayerBuffers {
  double block = 0;   // weight block of one (X, Y) position: k n / (Gx Gy) for each tap
  double output = 0;  // summed over the in axis in forward, unless the input is whole
  // The input's gradient is summed over the out axis in backward, unless the output is whole or the
  // gradient is not needed.
  double input = 0;
};
LayerBuffers layer_buffers(const LayerWork& layer, const GridShape& shape, double units);

// Seconds by equations 4 to 8 of all occurrences of one layer, with each collective run once.
// `units` as in layer_buffers().
struct CollectiveSeconds {
  double all_gather_z = 0;         // equation 4
  double reduce_scatter_z = 0;     // 5
  double all_reduce_forward = 0;   // 6: over Y; transposed layers: over X
  double all_reduce_backward = 0;  // 7: over X; transposed layers: over Y
  double all_reduce_data = 0;      // 8
  double context = 0;              // none of the paper's: keys and values, if sequences are divided

  // equation 9
  double total() const {
    return all_gather_z + reduce_scatter_z + all_reduce_forward + all_reduce_backward + all_reduce_data + context;
  }
};
CollectiveSeconds layer_collectives(const LayerWork& layer, const GridShape& shape, const AxisLinks& links,
                                    double units, double element_bytes, double gradient_bytes);

// Communication that the paper's equations leave out, in seconds of all occurrences of a layer:
//   - activations that change their layout
//   - statistics of group norms with a group on two ranks, in elements of `statistic_bytes`:
//     forward gathers mean and variance of every channel, backward sums two numbers per group
struct ExchangeSeconds {
  double forward = 0, backward = 0;
};
ExchangeSeconds layer_exchanges(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                                double element_bytes, double statistic_bytes);
bool splits_a_group(const LayerWork& norm, const GridShape& shape);
// Attention with sequences divided over the ranks of `link`: keys and values in forward, the same
// again and their gradients in backward. 0 for other layers. `units`: of one rank.
ExchangeSeconds context_exchange(const LayerWork& layer, const GridShape& shape, const AxisLink& link, double units,
                                 double element_bytes, const ContextSplit& context);

// Attention whose rows of queries are divided over the tensor axis that does not split its heads:
// outputs are gathered in forward, in two messages; in backward the gradients of queries are, and
// those of keys and values are summed. 0 for other layers. `units` as in layer_buffers().
ExchangeSeconds rows_exchange(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                              double element_bytes);

// A product that reads a residual stream whose rows are divided over X gathers its input once more
// in backward. 0 for other layers. `units` as in layer_buffers().
double stream_gather_seconds(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                             double element_bytes);

// How often each collective runs in a step.
enum class Coefficients : uint8_t {
  paper,  // once for each product of the blocks
  // As in the authors' scripts: backward gathers again, checkpointing doubles the forward
  // all-reduce, and the data all-reduce counts twice.
  authors,
  // As in this trainer: depends on micro-batches, activation checkpointing and cache, and includes
  // embedding and head (step_model.hpp).
  trainer,
};
template <>
struct Names<Coefficients> {
  static constexpr Named<Coefficients> all[] = {
      {"paper", Coefficients::paper}, {"authors", Coefficients::authors}, {"trainer", Coefficients::trainer}};
};

// Seconds of all layers with coefficients paper or authors, for a whole batch.
CollectiveSeconds published_collectives(const LayerTable& table, const GridShape& shape, const AxisLinks& links,
                                        double batch_tokens, double element_bytes, Coefficients coefficients);

}  // namespace axonn
