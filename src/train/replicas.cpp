#include "axonn/train/replicas.hpp"

#include <map>
#include <vector>

#include <ATen/ops/empty.h>
#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

struct Hashed {
  std::string name;
  int64_t hash = 0;
};

int64_t hash_of(const at::Tensor& shard) {
  const at::Tensor bytes = shard.to(at::kCPU).contiguous();
  return static_cast<int64_t>(XXH64(bytes.const_data_ptr(), bytes.nbytes(), 0));
}

}  // namespace

void check_replicas(Context& context, std::span<const CheckpointTensor> tensors, int64_t step) {
  std::map<uint8_t, std::pair<AxisSet, std::vector<Hashed>>> by_axes;  // same keys, in the same order, on every rank
  for (const CheckpointTensor& tensor : tensors) {
    const AxisSet axes = tensor.replicated_axes();
    if (context.shape().size(axes) == 1) continue;
    auto& [set, hashed] = by_axes[axes.bits()];
    set = axes;
    hashed.push_back({tensor.name, hash_of(tensor.shard)});
  }
  std::string differs;
  for (const auto& [bits, entry] : by_axes) {
    const auto& [axes, hashed] = entry;
    const at::Tensor least = at::empty({static_cast<int64_t>(hashed.size())}, at::kLong);
    for (size_t i = 0; i < hashed.size(); ++i) least[static_cast<int64_t>(i)] = hashed[i].hash;
    const at::Tensor greatest = least.clone();
    auto& communicator = context.communicators().on_cpu(axes);
    communicator.all_reduce(least, ReduceOp::min).wait();
    communicator.all_reduce(greatest, ReduceOp::max).wait();
    for (size_t i = 0; i < hashed.size() && differs.empty(); ++i)
      if (!least[static_cast<int64_t>(i)].equal(greatest[static_cast<int64_t>(i)]))
        differs = "'" + hashed[i].name + "' over " + axes.to_string();
  }
  const at::Tensor any = at::empty({1}, at::kLong).fill_(differs.empty() ? 0 : 1);
  context.communicators().on_cpu(AxisSet::all()).all_reduce(any, ReduceOp::max).wait();
  if (any.item<int64_t>() == 0) return;
  throw UserError("train.check_replicas",
                  detail::concatenate("after step ", step, " ranks that must hold the same bits differ",
                                      differs.empty() ? std::string(" (seen by another rank)") : ": " + differs));
}

}  // namespace axonn
