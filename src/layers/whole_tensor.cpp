#include "axonn/layers/whole_tensor.hpp"

#include <cstdint>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/arena.hpp"

namespace axonn {

at::Tensor whole_tensor(Context& context, const ArenaSlot& slot, const at::Tensor& held) {
  const at::NoGradGuard no_grad;
  Communicator& group = context.communicators()[{Axis::x, Axis::y, Axis::z}];
  const ShardSpec& spec = slot.spec;
  const GridShape& shape = context.shape();
  std::vector<int64_t> counts;
  std::vector<std::vector<MappedRange>> places;
  int64_t all = 0;
  for (const int rank : group.group().ranks) {
    const Coordinate at = context.grid().coordinate(rank);
    const Range range = spec.block_range(shape, at, kRangeAlignment);
    counts.push_back(range.size());
    places.push_back(mapped_ranges(spec, shape, at, range));
    for (MappedRange& each : places.back()) each.local_begin += all - range.begin;
    all += range.size();
  }
  AXONN_ASSERT(counts[static_cast<size_t>(group.rank())] == held.numel(), "another range than the arena's");
  const at::Tensor gathered = at::empty({all}, held.options().requires_grad(false));
  group.all_gather(held.contiguous(), gathered, counts).wait();
  const at::Tensor whole = at::empty({spec.global_numel()}, gathered.options());
  for (const auto& of_rank : places)
    for (const MappedRange& each : of_rank)
      whole.narrow(0, each.global_begin, each.size).copy_(gathered.narrow(0, each.local_begin, each.size));
  return whole.view(spec.global_shape());
}

at::Tensor whole_weight(Context& context, const ShardedParameter& parameter) {
  const ArenaSlot& slot = parameter.slot();
  return whole_tensor(context, slot, parameter.arena().master().narrow(0, slot.offset, slot.range.size()));
}

}  // namespace axonn
