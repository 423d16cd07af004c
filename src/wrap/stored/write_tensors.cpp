#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/layers/whole_tensor.hpp"
#include "wrap/split_layer.hpp"
#include "wrap/stored/stored_tensors.hpp"

namespace axonn {
namespace {

using safetensors::View;

// The order of writing, which is the same on all ranks: file names, and the tensor of each.
struct Plan {
  std::vector<View> views;
  std::vector<const StoredTensor*> tensors;
};

Plan plan_of(const std::vector<StoredTensor>& tensors) {
  Plan plan;
  for (const StoredTensor& each : tensors)
    for (const std::string& name : each.names)
      plan.views.push_back({.name = name, .dtype = each.dtype, .shape = each.shape, .parts = {}});
  std::ranges::sort(plan.views, {}, &View::name);  // the same file, however the module is wrapped
  safetensors::sort_for_file(plan.views);
  for (const View& view : plan.views)
    for (const StoredTensor& each : tensors)
      if (std::ranges::find(each.names, view.name) != each.names.end()) plan.tensors.push_back(&each);
  AXONN_ASSERT(plan.tensors.size() == plan.views.size(), "two tensors of one name");
  return plan;
}

// The elements of a layer's tensor from all ranks of the first data group, in LibTorch's order.
at::Tensor whole_of_layer(Context& context, const StoredTensor& tensor) {
  return as_named(whole_tensor(context, *tensor.slot, tensor.held).reshape({-1}), tensor.shape).reshape({-1});
}

// The whole tensor on the ranks of the first Z group, in the file's type and on the CPU.
at::Tensor whole(Context& context, const StoredTensor& tensor) {
  at::Tensor flat = tensor.of_layer ? whole_of_layer(context, tensor) : tensor.held.contiguous();
  if (!tensor.of_layer && tensor.slot != nullptr && tensor.slot->sharded_over_z()) {
    int64_t numel = 0;
    for (const int64_t count : tensor.slot->counts) numel += count;
    const at::Tensor gathered = at::empty({numel}, flat.options());
    context.communicators()[Axis::z].all_gather(flat, gathered, tensor.slot->counts).wait();
    flat = gathered;
  }
  return flat.to(at::kCPU, tensor.dtype).contiguous();
}

}  // namespace

void write_tensors(Context& context, const std::vector<StoredTensor>& tensors, const std::filesystem::path& file,
                   int64_t shard_bytes) {
  const at::NoGradGuard no_grad;
  const Plan plan = plan_of(tensors);
  const bool writes = context.at() == Coordinate{};
  std::exception_ptr failed;
  const auto attempt = [&](auto work) {  // the gathers go on, so that no rank waits for this one
    if (!writes || failed) return;
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  };
  std::optional<safetensors::StateDictWriter> files;  // only on the rank that writes
  attempt([&] { files.emplace(plan.views, file, shard_bytes); });
  for (const StoredTensor* each : plan.tensors) {
    const Coordinate& at = context.at();
    if (at.data > 0 || (!each->of_layer && at.x + at.y > 0)) continue;  // not in the group that has it
    const at::Tensor bytes = whole(context, *each);
    attempt([&] { files->append({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()}); });
  }
  attempt([&] { files->finish(); });
  all_ranks_or_none(context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data}), [&] {
    if (failed) std::rethrow_exception(failed);
  });
}

}  // namespace axonn
