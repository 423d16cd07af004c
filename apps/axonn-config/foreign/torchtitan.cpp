#include "foreign/foreign_programs.hpp"

#include <axonn/core/error.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.export";

}  // namespace

// The ranks of a context share the weights of Z, as in our model.
void print_torchtitan(std::ostream& out, const ForeignLayout& layout) {
  AXONN_CHECK(layout.grid.z % layout.context.ranks == 0, kWhere,
              "torchtitan divides weights over the ranks of a "
              "context: grid ",
              layout.grid.to_string(), " needs a z that divides by ", layout.context.ranks);
  out << "[training]\nlocal_batch_size = " << layout.micro_batch << "\nglobal_batch_size = " << layout.batch
      << "\nmixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n[parallelism]\n"
         "data_parallel_replicate_degree = "
      << layout.grid.data << "\ndata_parallel_shard_degree = " << layout.grid.z / layout.context.ranks
      << "\ntensor_parallel_degree = " << layout.grid.x
      << "\npipeline_parallel_degree = 1\ncontext_parallel_degree = " << layout.context.ranks
      << "\ncontext_parallel_rotate_method = \"" << (layout.context.gathers ? "allgather" : "alltoall")
      << "\"\n\n[activation_checkpoint]\nmode = \"" << (runs_again(layout) ? "full" : "none") << "\"\n";
}

ForeignLayout read_torchtitan(const ForeignWords& words, int64_t gpus) {
  ForeignLayout layout;
  const auto degree = [&](const char* key) { return number_of(words, std::string("parallelism.") + key, 1); };
  for (const char* key : {"parallelism.pipeline_parallel_degree", "parallelism.expert_parallel_degree"})
    refuse_degree(words, key);
  layout.context =
      context_of(words, "parallelism.context_parallel_degree",
                 word_of(words, "parallelism.context_parallel_rotate_method", "allgather"), "alltoall", "allgather");
  const int64_t x = degree("tensor_parallel_degree"), data = degree("data_parallel_replicate_degree"),
                context = layout.context.ranks;
  AXONN_CHECK(gpus % (x * data) == 0 && gpus / x / data % context == 0, kWhere, gpus,
              " GPUs must divide by the degrees ", x, " x ", data, " x ", context);
  const bool rest = word_of(words, "parallelism.data_parallel_shard_degree", "-1") == "-1";
  const int64_t sharded = rest ? gpus / x / data : degree("data_parallel_shard_degree") * context;
  AXONN_CHECK(sharded <= gpus, kWhere, gpus, " GPUs must divide by data_parallel_shard_degree ", sharded / context);
  layout.grid = {.x = static_cast<int>(x), .z = static_cast<int>(sharded), .data = static_cast<int>(data)};
  set_batch(layout, {.all = given_number(words, "training.global_batch_size"),
                     .micro = number_of(words, "training.local_batch_size", 1)});
  const std::string again = word_of(words, "activation_checkpoint.mode", "none");
  AXONN_CHECK(again == "none" || again == "full", kWhere, "'activation_checkpoint.mode' is ", again,
              ", which the model does not know: give full or none");
  if (again == "full") layout.checkpoint = axonn::Checkpointing::on;
  return layout;
}
