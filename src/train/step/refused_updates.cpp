#include "train/step/refused_updates.hpp"

#include <cmath>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/checkpoint/history.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/train/checkpoint_tensors.hpp"

namespace axonn {

RefusedUpdates::RefusedUpdates(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                               Communicator& everyone, Saver& saver)
    : network_(network),
      config_(config),
      identity_(identity),
      everyone_(everyone),
      saver_(saver),
      guard_(config.spikes) {
  if (network.context.options().dtype == at::kHalf) {
    loss_scale_.emplace(config.loss_scale);
    if (identity.loss_scale) loss_scale_->set_state(*identity.loss_scale);
  }
  AXONN_CHECK(config.spikes.action == OnSpike::off || network.optimizer.keeps_gradients(), "train.train",
              "--on-spike needs the gradient norm before weights change: give --clip, or --optimizer-schedule "
              "rs-opt-ag");
  if (identity.spikes) guard_.set_state(*identity.spikes);
}

std::function<bool(double)> RefusedUpdates::accept(double loss) const {
  if (guard_.action() == OnSpike::off) return {};
  return [this, loss](double norm) { return !guard_.is_spike(loss, norm); };
}

std::optional<int64_t> RefusedUpdates::settle(StepMetrics& metrics, const UpdateReport& report,
                                              const PassLosses& losses) {
  std::optional<int64_t> back_to;
  metrics.gradient_norm = report.gradient_norm;
  const bool overflow = loss_scale_ && !std::isfinite(report.gradient_norm);
  if (report.applied)
    guard_.accept(metrics.loss, report.gradient_norm);
  else if (!overflow && guard_.is_spike(metrics.loss, report.gradient_norm))
    back_to = act_on_spike(metrics);
  else if (!(loss_scale_ && loss_scale_->skipped()))
    refuse_loss(metrics.step, losses.sums.to(at::kCPU, at::kDouble));
  if (guard_.action() != OnSpike::off) metrics.spikes = guard_.state().spikes;
  if (loss_scale_) {
    if (report.applied) loss_scale_->applied();
    metrics.loss_scale = loss_scale_->value();
    metrics.skipped_steps = loss_scale_->state().skipped;
  }
  return back_to;
}

void RefusedUpdates::refuse_loss(int64_t step, const at::Tensor& sums) {
  saver_.finish();
  const int64_t n = sums.numel();
  const at::Tensor all = at::empty({n * everyone_.size()}, at::kDouble);
  everyone_.all_gather(sums, all).wait();
  std::string where;
  for (int64_t i = 0; i < all.numel() && where.empty(); ++i)
    if (!std::isfinite(all.const_data_ptr<double>()[i]))
      where = detail::concatenate("the loss of micro-batch ", i % n, " on rank ", i / n, " (",
                                  network_.context.grid().coordinate(static_cast<int>(i / n)).to_string(), ")");
  if (where.empty()) where = "the gradient (every loss is finite)";
  const std::string scaled = loss_scale_
                                 ? detail::concatenate(" after ", loss_scale_->state().in_a_row,
                                                       " skipped ones, at a loss scale of ", loss_scale_->value())
                                 : std::string();
  std::string newest;
  all_ranks_or_none(everyone_, [&] {
    if (everyone_.rank() != 0) return;
    const auto saved = history_in(config_.out);
    newest = saved.empty() ? "no checkpoint has been written" : "newest checkpoint: " + saved.back().directory.string();
  });
  throw UserError("train.train",
                  detail::concatenate(where, " is not finite in step ", step, scaled, ", which has changed nothing; ",
                                      broadcast_text(everyone_, newest, 0)));
}

// Called by every rank. Nothing has been updated. Returns the step that it has gone back to.
std::optional<int64_t> RefusedUpdates::act_on_spike(const StepMetrics& metrics) {
  const std::string what = detail::concatenate("step ", metrics.step,
                                               " is a spike: ", guard_.compared(metrics.loss, *metrics.gradient_norm));
  if (guard_.action() == OnSpike::rollback) saver_.finish();
  const std::string checkpoint = saver_.newest().empty() ? identity_.checkpoint : saver_.newest();
  std::optional<int64_t> back_to;
  if (guard_.action() == OnSpike::rollback && !checkpoint.empty()) {
    back_to = roll_back(checkpoint, metrics.step);
  } else {
    AXONN_CHECK(guard_.skip(), "train.train", what, ", after ", SpikeGuard::kMostInARow,
                " others in a row; choose a lower learning rate or a higher --spike-factor");
  }
  if (network_.context.rank() != 0) return back_to;
  if (back_to)
    log::warn(what, "; back to ", checkpoint, ", and on with the batch after it");
  else
    log::warn(what, "; its update is skipped",
              guard_.action() == OnSpike::rollback ? ", as there is no checkpoint yet" : "");
  return back_to;
}

// The step that follows is the one after the checkpoint, with the batch that follows now.
int64_t RefusedUpdates::roll_back(const std::string& checkpoint, int64_t step) {
  const int64_t next = step + guard_.state().left_out;
  Context& context = network_.context;
  const CheckpointReader reader(everyone_, checkpoint);
  reader.load([&](AxisSet axes) -> Communicator& { return context.communicators().on_cpu(axes); }, context.shape(),
              context.at(), checkpoint_tensors(network_.parameters, &network_.optimizer, &network_.task));
  const CheckpointState& state = reader.state();
  network_.optimizer.state_changed();
  network_.optimizer.set_steps_taken(state.updates());
  if (loss_scale_ && state.loss_scale) loss_scale_->set_state(*state.loss_scale);
  guard_.roll_back(state.spikes.value_or(SpikeGuard::State{}), state.step, next);
  rollbacks_ = std::exchange(rolled_back_to_, state.step) == state.step ? rollbacks_ + 1 : 1;
  AXONN_CHECK(rollbacks_ <= SpikeGuard::kMostInARow, "train.train", checkpoint, " was rolled back to ",
              SpikeGuard::kMostInARow, " times; choose a lower learning rate or a higher --spike-factor");
  return state.step;
}

void RefusedUpdates::describe(CheckpointState& state) const {
  if (loss_scale_) state.loss_scale = loss_scale_->state();
  if (guard_.matters()) state.spikes = guard_.state();
}

}  // namespace axonn
