#include "foreign/foreign_programs.hpp"

#include <axonn/core/error.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.export";

}  // namespace

void print_megatron(std::ostream& out, const ForeignLayout& layout) {
  const bool sharded = layout.grid.z > 1;
  out << "--tensor-model-parallel-size " << layout.grid.x << "\n--micro-batch-size " << layout.micro_batch
      << "\n--global-batch-size " << layout.batch << "\n--bf16\n";
  if (layout.context.ranks > 1)
    out << "--context-parallel-size " << layout.context.ranks << "\n--cp-comm-type "
        << (layout.context.gathers ? "all_gather" : "p2p") << "\n";
  if (layout.norm_rows) out << "--sequence-parallel\n";
  if (sharded) out << "--use-torch-fsdp2\n--num-distributed-optimizer-instances " << layout.grid.data << "\n";
  if (runs_again(layout)) out << "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n";
}

ForeignLayout read_megatron(const ForeignWords& words, int64_t gpus) {
  ForeignLayout layout;
  for (const char* key : {"pipeline-model-parallel-size", "expert-model-parallel-size"}) refuse_degree(words, key);
  layout.context =
      context_of(words, "context-parallel-size", word_of(words, "cp-comm-type", "p2p"), "p2p", "all_gather");
  const int64_t x = number_of(words, "tensor-model-parallel-size", 1);
  AXONN_CHECK(gpus % x == 0, kWhere, gpus, " GPUs must divide by --tensor-model-parallel-size ", x);
  const bool sharded = words.contains("use-torch-fsdp2") || words.contains("use-megatron-fsdp");
  const int64_t replicas = sharded ? number_of(words, "num-distributed-optimizer-instances", 1) : gpus / x;
  AXONN_CHECK(gpus / x % replicas == 0, kWhere, gpus / x, " GPUs must divide by --num-distributed-optimizer-instances ",
              replicas);
  layout.grid = {
      .x = static_cast<int>(x), .z = static_cast<int>(gpus / x / replicas), .data = static_cast<int>(replicas)};
  set_batch(layout,
            {.all = given_number(words, "global-batch-size"), .micro = number_of(words, "micro-batch-size", 1)});
  layout.norm_rows = words.contains("sequence-parallel");
  const std::string again = word_of(words, "recompute-granularity", "");
  if (again == "full") layout.checkpoint = axonn::Checkpointing::on;
  if (again == "selective") layout.checkpoint = axonn::Checkpointing::selective;
  return layout;
}
