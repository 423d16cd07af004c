#include "train/replicas.hpp"

#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/layers/compare/same_replicas.hpp"

namespace axonn {

void check_replicas(Context& context, std::span<const CheckpointTensor> tensors, int64_t step) {
  std::vector<Replica> replicas;
  for (const CheckpointTensor& tensor : tensors)
    replicas.push_back({tensor.name, tensor.shard, tensor.replicated_axes()});
  check_same_replicas(context, replicas, "train.check_replicas", detail::concatenate("after step ", step));
}

}  // namespace axonn
