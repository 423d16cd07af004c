#include "perfmodel/search/memory_plans.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {
namespace {

constexpr int64_t kMostMicroBatch = 1024;
constexpr double kMostBytes = 1e18;  // more than any memory; sums of a few values do not overflow

double weights_gathered(const NetworkModel& network, const GridShape& grid) {
  double weights = 0;
  for (const LayerWork& layer : network.layers)
    if (layer.owns_weight && layer.has_weight())
      weights += static_cast<double>(layer.count) * layer_buffers(layer, grid, 0).block;
  return weights;
}

std::vector<Recomputation> recomputations(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::automatic:
      return {Recomputation::none, Recomputation::blocks};
    case Checkpointing::on:
      return {Recomputation::blocks};
    case Checkpointing::off:
      return {Recomputation::none};
    case Checkpointing::selective:
      return {Recomputation::attention};
    case Checkpointing::stopped:
      return {Recomputation::stopped};
  }
  return {};
}

// Whether rows are divided, of queries or norms: what there is to choose. `possible`: by this
// network on this grid.
template <typename Rows>
std::vector<bool> divisions(Rows rows, bool possible) {
  if (rows == Rows::off || !possible) return {false};
  return rows == Rows::on ? std::vector<bool>{true} : std::vector<bool>{false, true};
}

// Of a block, only its input is kept for backward. Selective recomputation keeps what nothing run
// again does: the fused kernel has no probabilities to drop.
bool keeps_only_inputs(Recomputation recompute) {
  return recompute == Recomputation::stopped || recompute == Recomputation::blocks;
}

}  // namespace

MemoryPlans::MemoryPlans(const NetworkModel& network, const Machine& machine, const SearchOptions& options,
                         const GridShape& grid)
    : network_(&network),
      machine_(&machine),
      options_(&options),
      grid_(grid),
      bytes_over_(std::numeric_limits<int64_t>::max()) {}

void MemoryPlans::find() {
  for (const Precision precision : options_->precisions)
    for (const Recomputation recompute : recomputations(options_->checkpointing))
      for (const bool attention_rows : divisions(options_->attention_rows, grid_.x * grid_.y > 1))
        for (const bool norm_rows : divisions(options_->norm_rows, grid_.x > 1 && network_->divides_norms))
          add(precision, recompute, attention_rows, norm_rows);
}

void MemoryPlans::add(Precision precision, Recomputation recompute, bool attention_rows, bool norm_rows) {
  MemoryOptions memory = {.micro_batch = 1,
                          .element_bytes = element_bytes(precision),
                          .gradient_bytes = state_bytes(precision),
                          .state_bytes = state_bytes(precision),
                          .moments = options_->moments,
                          .divided_update = options_->divided_update,
                          .attention_rows = attention_rows,
                          .norm_rows = norm_rows,
                          .checkpoint_every = keeps_only_inputs(recompute) ? 1 : 0,
                          .gathered_blocks = 1 + kPrefetch,
                          .scattered_blocks = 1 + kOutstanding,
                          .divided_gradients = options_->divided_gradients,
                          .moment_bytes = options_->moment_bytes,
                          .logits_chunks = options_->logits_chunks,
                          .context = options_->context};
  MemoryPlan plan = {.precision = precision,
                     .recompute = recompute,
                     .attention_rows = attention_rows,
                     .norm_rows = norm_rows,
                     .rich = options_->objective != Objective::memory};
  plan.gathered_bytes = weights_gathered(*network_, grid_) * static_cast<double>(element_bytes(precision));
  const auto over = [&] {
    plan.one = network_->memory(grid_, memory);
    const int64_t smallest = std::max<int64_t>(options_->micro_batch, 1);
    return static_cast<double>(this->memory(plan, smallest).total_bytes()) - usable_bytes();
  };
  if (!plan.rich || over() > 0) {
    plan.rich = false;
    memory.gathered_blocks = memory.scattered_blocks = 2;
    if (const double bytes = over(); bytes > 0) {
      bytes_over_ = std::min(bytes_over_, static_cast<int64_t>(bytes));
      return;
    }
  }
  const int64_t mine = sequences();
  const int64_t asked = options_->micro_batch;
  for (int64_t size = asked > 0 ? asked : 1; size <= (asked > 0 ? asked : std::min(mine, kMostMicroBatch)); ++size) {
    if (mine % size != 0) continue;
    if (static_cast<double>(this->memory(plan, size).total_bytes()) > usable_bytes()) break;
    plan.micro_batches.push_back(size);
  }
  plans_.push_back(std::move(plan));
}

MemoryPrediction MemoryPlans::memory(const MemoryPlan& plan, int64_t micro_batch) const {
  MemoryPrediction memory = plan.one;
  const auto grow = [](int64_t& bytes, int64_t times) {
    bytes = static_cast<double>(bytes) * static_cast<double>(times) < kMostBytes ? bytes * times
                                                                                 : static_cast<int64_t>(kMostBytes);
  };
  // The first stage of a pipeline has as many micro-batches under way as there are stages.
  grow(memory.activation_bytes,
       micro_batch * std::min(options_->stages, std::max<int64_t>(1, sequences() / micro_batch)));
  grow(memory.logits_bytes, micro_batch);
  grow(memory.block_bytes, micro_batch);
  return memory;
}

double MemoryPlans::usable_bytes() const { return machine_->memory_bytes() * (1 - options_->memory_margin); }

int64_t MemoryPlans::sequences() const {
  return options_->batch_tokens / network_->tokens_per_sample / sample_parts(grid_, options_->context);
}

}  // namespace axonn
