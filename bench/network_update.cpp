#include "network_update.hpp"

#include <utility>
#include <vector>

namespace axonn::bench {

NetworkUpdate::NetworkUpdate(Environment& environment, const Grid& grid, std::shared_ptr<Arena> arena,
                             const overlap::UpdateProgram& program, UpdateSchedule schedule, OverlapPolicy policy)
    : communicators_(environment, grid, environment.rank(), c10::kCPU),
      scheduler_(communicators_, grid, policy),
      arena_(std::move(arena)),
      schedule_(scheduler_.add(arena_)),
      executor_(program, schedule, {*arena_, schedule_, communicators_, grid, environment.rank()}) {
  executor_.set_rows(overlap::kDecay, std::vector<double>(arena_->slots().size(), 0.1));
  executor_.set(overlap::kLearningRate, 1e-4);
  executor_.set(overlap::kMostNorm, 1);
  executor_.set(overlap::kUnscale, 1);
}

void NetworkUpdate::step() {
  executor_.set(overlap::kUpdateNumber, static_cast<double>(++number_));
  executor_.prepare();
  scheduler_.begin_step();
  for (const ArenaSlot& slot : arena_->slots()) {
    schedule_.use(slot);
    schedule_.reduce(slot, [](const at::Tensor&, bool) {});
  }
  scheduler_.finish();
  executor_.gradient_norm(/*poisoned=*/false);
  executor_.update();
  schedule_.wait_for_weights();
}

}  // namespace axonn::bench
