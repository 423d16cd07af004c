#include "axonn/overlap/execute/network_update.hpp"

#include <utility>
#include <vector>

namespace axonn {
using namespace coconet;

NetworkUpdate::NetworkUpdate(Communicators& communicators, const Grid& grid, int rank, std::shared_ptr<Arena> arena,
                             const UpdateProgram& program, const Program& scheduled, const RunSettings& settings,
                             const OverlapPolicy& policy)
    : scheduler_(communicators, grid, policy),
      arena_(std::move(arena)),
      schedule_(scheduler_.add(arena_)),
      executor_(program, scheduled, {*arena_, schedule_, communicators, grid, rank}, settings),
      numbered_(program.has_number(kUpdateNumber)) {
  if (program.has_number(kDecay)) executor_.set_rows(kDecay, std::vector<double>(arena_->slots().size(), 0.1));
  for (const auto& [number, value] : {std::pair(kLearningRate, 1e-4), {kMostNorm, 1}, {kUnscale, 1}, {kAverageRate, 1}})
    if (program.has_number(number)) executor_.set(number, value);
}

void NetworkUpdate::step() {
  ++number_;
  if (numbered_) executor_.set(kUpdateNumber, static_cast<double>(number_));
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

}  // namespace axonn
