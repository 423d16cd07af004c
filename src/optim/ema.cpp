#include "axonn/optim/ema.hpp"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>

#include "axonn/core/error.hpp"

namespace axonn {

Ema::Ema(Arena& arena, NetworkSchedule& schedule, double decay)
    : arena_(arena), schedule_(schedule), decay_(decay), average_(arena.master().clone()) {
  AXONN_CHECK(decay > 0 && decay < 1, "optim.ema", "the decay of averaged weights must be in (0, 1), got ", decay);
}

void Ema::update(int64_t step) {
  AXONN_ASSERT(!in_use_, "weights were updated while their average stood in for them");
  const at::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  average_.lerp_(arena_.master(), 1 - std::min(decay_, (1 + n) / (10 + n)));
}

// In pieces, so that no third buffer of this size is needed.
void Ema::exchange() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const at::NoGradGuard no_grad;
  for (int64_t begin = 0; begin < average_.numel(); begin += kPiece) {
    const int64_t size = std::min(kPiece, average_.numel() - begin);
    const at::Tensor weights = arena_.master().narrow(0, begin, size), average = average_.narrow(0, begin, size),
                     kept = weights.clone();
    weights.copy_(average);
    average.copy_(kept);
  }
  arena_.round_master();
  schedule_.weights_written();
  in_use_ = !in_use_;
}

Ema::InUse::InUse(Ema* ema) : ema_(ema) {
  if (ema_ == nullptr) return;
  AXONN_ASSERT(!ema_->in_use_, "the average stands in for the weights already");
  ema_->exchange();
}

Ema::InUse::~InUse() {
  if (ema_ != nullptr) ema_->exchange();
}

}  // namespace axonn
