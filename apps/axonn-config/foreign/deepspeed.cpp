#include "foreign/foreign_programs.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.export";
using Json = nlohmann::ordered_json;

}  // namespace

void print_deepspeed(std::ostream& out, const ForeignLayout& layout) {
  AXONN_CHECK(layout.context.ranks == 1, kWhere,
              "deepspeed passes no keys and values around ranks, its Ulysses divides heads: remove --context");
  AXONN_CHECK(!layout.norm_rows, kWhere, "deepspeed computes norms on all ranks of a tensor group: remove --norm-rows");
  const int64_t ranks = int64_t{layout.grid.z} * layout.grid.data;
  Json zero = {{"stage", layout.grid.z > 1 ? 3 : layout.grid.data > 1 ? 1 : 0}};
  if (layout.grid.z > 1 && layout.grid.data > 1) zero["mics_shard_size"] = layout.grid.z;
  Json all = {{"train_batch_size", layout.batch},
              {"train_micro_batch_size_per_gpu", layout.micro_batch},
              {"gradient_accumulation_steps", layout.batch / ranks / layout.micro_batch},
              {"bf16", {{"enabled", true}}},
              {"zero_optimization", std::move(zero)},
              {"tensor_parallel", {{"autotp_size", layout.grid.x}}}};
  if (runs_again(layout)) all["activation_checkpointing"] = {{"partition_activations", false}};
  out << all.dump(2) << "\n";
}

ForeignLayout read_deepspeed(const ForeignWords& words, int64_t gpus) {
  ForeignLayout layout;
  refuse_degree(words, "sequence_parallel_size");
  const int64_t x = number_of(words, "tensor_parallel.autotp_size", 1);
  AXONN_CHECK(gpus % x == 0, kWhere, gpus, " GPUs must divide by autotp_size ", x);
  const bool sharded = word_of(words, "zero_optimization.stage", "0") == "3";
  const int64_t z = sharded ? number_of(words, "zero_optimization.mics_shard_size", gpus / x) : 1;
  AXONN_CHECK(gpus / x % z == 0, kWhere, gpus / x, " GPUs must divide by mics_shard_size ", z);
  layout.grid = {.x = static_cast<int>(x), .z = static_cast<int>(z), .data = static_cast<int>(gpus / x / z)};
  set_batch(layout, {.all = given_number(words, "train_batch_size"),
                     .micro = given_number(words, "train_micro_batch_size_per_gpu"),
                     .passes = given_number(words, "gradient_accumulation_steps")});
  if (words.contains("activation_checkpointing.partition_activations")) layout.checkpoint = axonn::Checkpointing::on;
  return layout;
}
