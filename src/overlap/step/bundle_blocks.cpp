#include "overlap/step/bundle_blocks.hpp"

namespace axonn {
namespace {

// The parts of one parameter in the buffer: a row for each Z rank, padding at the end of the last
// ones.
at::Tensor rows_of(const ArenaSlot& slot, const ArenaBundle& bundle, const at::Tensor& buffer) {
  return buffer.view({static_cast<int64_t>(bundle.counts.size()), bundle.range.size()})
      .narrow(1, slot.offset - bundle.range.begin, slot.stored);
}

}  // namespace

void unpack(const Arena& arena, const ArenaBundle& bundle, const at::Tensor& buffer, const at::Tensor& unpacked) {
  for (const int index : bundle.slots) {
    const ArenaSlot& slot = arena.slots()[static_cast<size_t>(index)];
    const at::Tensor rows = rows_of(slot, bundle, buffer);
    unpacked.narrow(0, slot.place, rows.numel()).view(rows.sizes()).copy_(rows);
  }
}

void pack(const ArenaSlot& slot, const ArenaBundle& bundle, const at::Tensor& gradient, bool add,
          const at::Tensor& buffer) {
  const at::Tensor rows = rows_of(slot, bundle, buffer);
  if (!gradient.defined()) {
    if (!add) rows.zero_();
    return;
  }
  const at::Tensor flat = gradient.reshape({-1});
  const auto move = [&](const at::Tensor& from, const at::Tensor& to) { add ? to.add_(from) : to.copy_(from); };
  const int64_t full = flat.numel() / slot.stored, rest = flat.numel() % slot.stored;
  if (full > 0) move(flat.narrow(0, 0, full * slot.stored).view({full, slot.stored}), rows.narrow(0, 0, full));
  if (full == rows.size(0)) return;
  const at::Tensor last = rows.select(0, full);
  if (rest > 0) move(flat.narrow(0, full * slot.stored, rest), last.narrow(0, 0, rest));
  if (add) return;
  last.narrow(0, rest, slot.stored - rest).zero_();
  rows.narrow(0, full + 1, rows.size(0) - full - 1).zero_();
}

}  // namespace axonn
