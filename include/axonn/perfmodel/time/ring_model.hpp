#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "axonn/core/names.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/network/layer_table.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/placement/axis_placement.hpp"

// Seconds of the collectives of a step by rings (Singh et al., AxoNN 4D, section V). Bandwidths are 1e9 bytes a second.
namespace axonn {

// Where the bandwidth of an axis comes from.
enum class BandwidthMode : uint8_t {
  agnostic,  // one for all axes: that of the outermost level of the job (equations 1 to 9)
  aware,     // equation 10: shared by the rings that leave a node, for axes in the grid's order
  measured,  // the machine's table
  exact,     // the rings over every link of the rank map are counted, at every level, with the latency of their hops
};
template <>
struct Names<BandwidthMode> {
  static constexpr Named<BandwidthMode> all[] = {{"exact", BandwidthMode::exact},
                                                 {"agnostic", BandwidthMode::agnostic},
                                                 {"aware", BandwidthMode::aware},
                                                 {"measured", BandwidthMode::measured}};
};

// What the collectives along one axis cost. Everything is linear in the bytes of the whole buffer (what an all-gather gives, what a
// reduce-scatter takes, what an all-reduce sums): the ring moves (G - 1) / G of it.
struct AxisLink {
  double seconds_per_byte = 0;  // of an all-gather or reduce-scatter; an all-reduce is both
  double latency_seconds = 0;   // of either
  double gbps = 0;              // what a flat ring has; 0: the axis has one rank
  bool multi_level = false;     // level by level instead: reduce-scatter in the node, all-reduce among nodes, all-gather in the node

  double gather_seconds(double bytes) const { return seconds_per_byte * bytes + latency_seconds; }  // and of a reduce-scatter
  double all_reduce_seconds(double bytes) const { return 2 * gather_seconds(bytes); }
};
using AxisLinks = std::array<AxisLink, 4>;  // by Axis
inline const AxisLink& link_of(const AxisLinks& links, Axis axis) { return links[static_cast<size_t>(axis)]; }

// Equations 1 to 3: a ring of `size` ranks at `gbps`.
AxisLink ring_link(int64_t size, double gbps);

// Modes agnostic, aware and measured, for ranks in this order, node after node. Latencies are those of the levels when `latency` is set, or
// 0 as in the paper (its assumption 3).
AxisLinks ordered_links(BandwidthMode mode, const GridShape& shape, const AxisOrder& order, const Machine& machine,
                        std::span<const int64_t> level_sizes, bool latency);

// Mode exact for a placement: a ring that leaves units of size S in which it has f members shares their link with S / f - 1 others.
// multi_level: every axis takes the cheaper of the flat ring and the collective level by level.
AxisLinks placed_links(const AxisPlacement& placement, const Machine& machine, bool multi_level, bool latency);

// Mode exact for any rank map and nodes of any sizes: node_of_rank[r] is the node of rank r. Rings visit node after node; those that
// leave a node share its link, and the slowest group of an axis counts. intra and inter are the machine's innermost and outermost level.
AxisLinks counted_links(const Grid& grid, std::span<const int> node_of_rank, const Machine& machine, bool latency);

// Elements of the buffers of one product on a rank with `units` (its tokens or pictures, m / (Gz Gdata)).
struct LayerBuffers {
  double block = 0;   // of the weight, of one (X, Y) position: kn / (Gx Gy) for each tap
  double output = 0;  // summed over the in axis in forward, unless the input is whole
  double input = 0;   // its gradient, summed over the out axis in backward, unless the output is whole or nobody wants it
};
LayerBuffers layer_buffers(const LayerWork& layer, const GridShape& shape, double units);

// Equations 4 to 8 of one layer, all occurrences together: (seconds) once each. units: as above.
struct CollectiveSeconds {
  double all_gather_z = 0;         // equation 4
  double reduce_scatter_z = 0;     // 5
  double all_reduce_forward = 0;   // 6: over Y, of a transposed layer over X
  double all_reduce_backward = 0;  // 7: over X, of a transposed layer over Y
  double all_reduce_data = 0;      // 8

  double total() const { return all_gather_z + reduce_scatter_z + all_reduce_forward + all_reduce_backward + all_reduce_data; }  // 9
};
CollectiveSeconds layer_collectives(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                                    double element_bytes, double gradient_bytes);

// What moves beside the sums of products, which the paper's equations do not know: activations that change their layout, and statistics of
// group norms of which a group lies on two ranks (mean and variance of every channel are gathered, two numbers a group summed in
// backward, in elements of `statistic_bytes`). Seconds of all occurrences together.
struct ExchangeSeconds {
  double forward = 0, backward = 0;
};
ExchangeSeconds layer_exchanges(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units, double element_bytes,
                                double statistic_bytes);
bool splits_a_group(const LayerWork& norm, const GridShape& shape);

// How often each happens in a step.
enum class Coefficients : uint8_t {
  paper,    // once each, of the blocks' products
  authors,  // the authors' scripts: backward gathers again, checkpointing doubles the forward all-reduce, the data all-reduce counts twice
  trainer,  // what this trainer does, by micro-batch, activation checkpointing and cache, embedding and head included (step_model.hpp)
};
template <>
struct Names<Coefficients> {
  static constexpr Named<Coefficients> all[] = {
      {"paper", Coefficients::paper}, {"authors", Coefficients::authors}, {"trainer", Coefficients::trainer}};
};

// Seconds of all layers under coefficients paper or authors; tokens: of the whole batch.
CollectiveSeconds published_collectives(const LayerTable& table, const GridShape& shape, const AxisLinks& links, double batch_tokens,
                                        double element_bytes, Coefficients coefficients);

}  // namespace axonn
