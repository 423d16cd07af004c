#include "comm/collectives/collective_plan.hpp"

#include <cstring>
#include <utility>

namespace axonn {
namespace {

std::byte* bytes_of(const CollectiveBuffer& buffer) {
  return buffer.scattered() ? nullptr : static_cast<std::byte*>(buffer.tensor().data_ptr());
}

}  // namespace

bool CollectivePlan::contiguous(int owner, int64_t begin, int64_t count, int64_t& place) const {
  if (!layout.contiguous(owner, begin, count, place)) return false;
  if (!inputs && !outputs) return true;
  int64_t longest = 0;
  for_each_range(owner, begin, count, [&](int64_t, int64_t, int64_t length) { longest = std::max(longest, length); });
  return longest == count;
}

void CollectivePlan::release() {
  epilogue = nullptr;
  inputs.reset();
  outputs.reset();
}

void CollectivePlan::place_own_part(int rank) const {
  for_each_range(rank, 0, layout.count(rank), [&](int64_t place, int64_t, int64_t count) {
    if (in(place) != out(place)) std::memcpy(out(place), in(place), bytes(count));
  });
}

CollectivePlan fused_plan(const FusedCollective& collective, BlockLayout layout, const CollectiveOptions& options) {
  const bool reduces = collective.contributions.defined(), gathers = collective.results.defined();
  const CollectiveBuffer &input = reduces ? collective.contributions : collective.results,
                         &output = gathers ? collective.results : collective.contributions;
  return {.layout = std::move(layout),
          .reduces = reduces,
          .gathers = gathers,
          .element_bytes = input.element_size(),
          .result_bytes = output.element_size(),
          .kernel = reduce_kernel(input.scalar_type(), collective.op),
          .epilogue = collective.epilogue,
          .input = bytes_of(input),
          .output = bytes_of(output),
          .inputs = input.scattered(),
          .outputs = output.scattered(),
          .first_place = options.arena_offset.value_or(0)};
}

}  // namespace axonn
