#include "axonn/network/memory.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"

namespace axonn {

int64_t MemoryPrediction::total_bytes() const {
  return weight_bytes + gradient_bytes + optimizer_bytes + gathered_bytes + activation_bytes +
         std::max(logits_bytes, block_bytes);
}

MemoryPrediction predict_stored(std::span<const StoredTensors> tensors, const GridShape& grid,
                                const MemoryOptions& options) {
  AXONN_CHECK(options.micro_batch >= 1, "network.memory", "the micro-batch must be at least 1 sequence, got ",
              options.micro_batch);
  AXONN_CHECK(options.element_bytes >= 1, "network.memory", "an element must have at least 1 byte, got ",
              options.element_bytes);
  AXONN_CHECK(options.checkpoint_every >= 0 && options.gathered_blocks >= 1 && options.scattered_blocks >= 1 &&
                  options.cache_bytes >= 0 && options.moment_bytes >= 0 && options.context.ranks >= 1 &&
                  options.logits_chunks >= 1,
              "network.memory",
              "checkpoint_every, cache_bytes and moment_bytes must not be negative; blocks, chunks and ranks of a "
              "context at least 1");
  const int64_t e = options.element_bytes;
  const Coordinate most = {.x = grid.x - 1, .y = grid.y - 1};  // the last part of an even split is a largest one

  int64_t stored = 0, kept = 0, largest = 0, matrices = 0;
  for (const auto& [spec, count] : tensors) {
    const int64_t range = spec.range_numel(grid, most, kRangeAlignment);
    stored += count * range;
    const int64_t replicas = options.divided_update ? int64_t{grid.data} * (spec.over_z ? 1 : grid.z) : 1;
    kept += (count * range + replicas - 1) / replicas;
    if (!spec.over_z) continue;
    largest = std::max(largest, range * grid.z);
    matrices += count * range * grid.z;
  }
  const int64_t g = options.gradient_bytes > 0 ? options.gradient_bytes : e,
                state = options.state_bytes > 0 ? options.state_bytes : e,
                moment = options.moment_bytes > 0 ? options.moment_bytes : state;
  return {.weight_bytes = stored * e + (state != e ? kept * state : 0),
          .gradient_bytes = (options.divided_gradients ? kept : stored) * (g + (state != g ? state : 0)),
          .optimizer_bytes = kept * (options.moments * moment + (options.ema ? state : 0)),
          .gathered_bytes = grid.z == 1
                                ? 0
                                : std::min(options.gathered_blocks * largest * e + options.cache_bytes, matrices * e) +
                                      std::min(options.scattered_blocks * largest, matrices) * g};
}

}  // namespace axonn
