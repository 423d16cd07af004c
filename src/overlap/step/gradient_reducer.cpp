#include "overlap/step/gradient_reducer.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/grid/block_owners.hpp"
#include "axonn/grid/row_share.hpp"
#include "overlap/step/bundle_blocks.hpp"

namespace axonn {
GradientReducer::GradientReducer(Arena& arena, const Grid& grid, GradientSums& sums, const OverlapPolicy& policy,
                                 TrafficLog& log, TensorPool& pool)
    : arena_(arena),
      grid_(grid),
      sums_(&sums),
      policy_(policy),
      log_(log),
      pool_(pool),
      contributions_(arena_.slots().size()),
      bundle_sums_(arena_.bundles().size()) {
  policy_changed();
}

void GradientReducer::policy_changed() {
  buckets_.clear();
  for (Contributions& each : contributions_) each.bucket = each.last_bucket = -1;
  if (!arena_.has_gradients()) return;
  cut(arena_.over_z(), /*over_z=*/true, Axis::data);
  cut(arena_.replicated(), /*over_z=*/false, kRowAxes);
}

// Fills each bucket with whole parameters; one message for all when buckets are off. If the owners'
// optimizer computes on the sums, buckets end at their blocks instead, so a parameter may lie in
// two.
void GradientReducer::cut(Range section, bool over_z, AxisSet axes) {
  if (grid_.shape().size(axes) == 1 || section.size() == 0) return;
  std::vector<int> order(arena_.slots().size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int index) { return slot_at(index).spec.over_z != over_z; });
  // A slot without elements comes before the one at its place: a bucket ends with its last one.
  std::ranges::sort(order, {}, [&](int index) { return std::pair(slot_at(index).offset, slot_at(index).stored); });
  const int64_t full = bucket_elements(policy_, section.size(), bytes_per_gradient());
  bool open = false;
  for (const int index : order) {
    const ArenaSlot& slot = slot_at(index);
    const bool full_now = open && slot.offset + slot.stored - buckets_.back().range.begin > full;
    const int64_t begin = open && optimizer_ ? slot.offset / BlockOwners::kBlock * BlockOwners::kBlock : slot.offset;
    if (!open || (policy_.switches.buckets && full_now && begin > buckets_.back().range.begin)) {
      Bucket bucket{.range = {begin, begin}, .axes = axes, .slots = {}, .request = {}};
      if (open) {
        buckets_.back().range.end = begin;
        for (const int before : buckets_.back().slots)
          if (slot_at(before).offset + slot_at(before).stored > begin) bucket.slots.push_back(before);
      }
      buckets_.push_back(std::move(bucket));
      for (const int shared : buckets_.back().slots) ++of(slot_at(shared)).last_bucket;
      open = true;
    }
    buckets_.back().range.end = slot.offset + slot.stored;
    buckets_.back().slots.push_back(index);
    of(slot).bucket = of(slot).last_bucket = static_cast<int>(buckets_.size()) - 1;
  }
}

void GradientReducer::set_optimizer(StepOptimizer* optimizer) {
  optimizer_ = optimizer;
  policy_changed();
}

void GradientReducer::begin_step(int micro_batches) {
  micro_batches_ = micro_batches;
  for (Contributions& each : contributions_) {
    each.uses = each.arrived = each.reduced = 0;
    each.complete = false;
  }
  for (BundleSum& sum : bundle_sums_) sum.complete = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int>(bucket.slots.size());
    bucket.sent = false;
  }
}

void GradientReducer::check_expected(const ArenaSlot& slot) {
  const Contributions& mine = of(slot);
  AXONN_CHECK(mine.uses > 0, "overlap.reduce", "a gradient of '", slot.name,
              "' came that no forward of this step asked for; backward must run inside the step of its forward");
  const bool sent = mine.bucket >= 0 && buckets_[static_cast<size_t>(mine.bucket)].sent;
  AXONN_CHECK(!sent && mine.reduced < micro_batches_, "overlap.reduce", "a gradient of '", slot.name,
              "' came after micro-batch ", micro_batches_,
              ", when it was summed over the grid; tell begin_step({.micro_batches = n})");
}

bool GradientReducer::adds(const ArenaSlot& slot) {
  return of(slot).arrived > 0 || (!slot.sharded_over_z() && of(slot).reduced > 0);
}

void GradientReducer::reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor&, bool)>& write) {
  AXONN_ASSERT(bundle_of(slot).single(), "the block of '", slot.name, "' is not contiguous in its bundle");
  check_expected(slot);
  write(block_of(slot).view(slot.block_shape), adds(slot));
  arrive(slot);
}

void GradientReducer::reduce(const ArenaSlot& slot, const at::Tensor& gradient) {
  if (bundle_of(slot).single()) {
    reduce(slot, [&](const at::Tensor& block, bool add) {
      if (gradient.defined()) {
        const at::Tensor to = block.view(gradient.sizes());
        add ? to.add_(gradient) : to.copy_(gradient);
      } else if (!add) {
        block.zero_();
      }
    });
    return;
  }
  check_expected(slot);
  pack(slot, bundle_of(slot), gradient, adds(slot), block_of(slot));
  arrive(slot);
}

// The sum of one micro-batch's contributions: the buffer of the bundle, or the arena itself for a
// parameter that is not sharded over Z.
at::Tensor GradientReducer::block_of(const ArenaSlot& slot) {
  if (!slot.sharded_over_z()) return arena_.gradient(slot);
  at::Tensor& buffer = bundle_sum(slot).buffer;
  if (!buffer.defined()) buffer = pool_.take(bundle_of(slot).numel(), arena_.gradients().options());
  return buffer.narrow(0, 0, bundle_of(slot).numel());
}

void GradientReducer::arrive(const ArenaSlot& slot) {
  Contributions& mine = of(slot);
  ++mine.arrived;
  if (--mine.uses > 0) return;  // the micro-batch has further contributions
  if (!slot.sharded_over_z()) {
    reduced(slot);
    return;
  }
  BundleSum& sum = bundle_sum(slot);
  if (!std::exchange(mine.complete, true)) ++sum.complete;
  if (sum.complete == static_cast<int>(bundle_of(slot).slots.size())) scatter(bundle_of(slot));
}

void GradientReducer::reduced(const ArenaSlot& slot) {
  Contributions& mine = of(slot);
  mine.arrived = 0;
  mine.complete = false;
  const bool last = ++mine.reduced == micro_batches_;
  if (!last || mine.bucket < 0) return;
  for (int each = mine.bucket; each <= mine.last_bucket; ++each)
    if (Bucket& bucket = buckets_[static_cast<size_t>(each)]; --bucket.missing == 0 && policy_.switches.buckets)
      send(bucket);
}

void GradientReducer::scatter(const ArenaBundle& bundle) {
  BundleSum& sum = bundle_sum(slot_at(bundle.slots.front()));
  if (under_way_.size() >= static_cast<size_t>(policy_.outstanding)) retire_scatter();
  const at::Tensor shard = arena_.gradients().narrow(0, bundle.range.begin, bundle.range.size());
  const at::Tensor whole = sum.buffer.narrow(0, 0, bundle.numel());
  if (std::ranges::any_of(bundle.slots, [&](int index) { return of(slot_at(index)).reduced > 0; })) {
    log_.wait(sum.scatter);  // the last micro-batch, which wrote the shard
    whole.narrow(0, bundle.own.begin, bundle.own.size()).add_(shard);
  }
  sum.scatter = log_.launch(Traffic::reduce_scatter, Axis::z, static_cast<int64_t>(whole.nbytes()), bundle.name,
                            sums_->reduce_scatter({.bundle = bundle, .whole = whole, .shard = shard}));
  under_way_.push_back({.bundle = slot_at(bundle.slots.front()).bundle,
                        .request = sum.scatter,
                        .buffer = std::exchange(sum.buffer, at::Tensor())});
  sum.complete = 0;
  if (!policy_.switches.reduce_scatter) retire_scatter();
  for (const int index : bundle.slots) reduced(slot_at(index));
}

void GradientReducer::retire_scatter() {
  Scatter& oldest = under_way_.front();
  log_.wait(oldest.request);
  LoggedRequest& last = bundle_sums_[static_cast<size_t>(oldest.bundle)].scatter;
  if (last.line == oldest.request.line) last = {};
  pool_.give_back(std::move(oldest.buffer));
  under_way_.pop_front();
}

void GradientReducer::send(Bucket& bucket) {
  std::vector<Request> after;
  int last = -1;
  for (const int index : bucket.slots) {
    const ArenaSlot& slot = slot_at(index);
    if (std::exchange(last, slot.bundle) == slot.bundle) continue;
    if (const Request& request = bundle_sum(slot).scatter.request; !request.done()) after.push_back(request);
  }
  const int64_t bytes = bucket.range.size() * bytes_per_gradient();
  const GradientBucket gradients{.arena = arena_, .range = bucket.range, .axes = bucket.axes, .after = after};
  bucket.request = log_.launch(Traffic::data, bucket.axes, bytes, "gradients", sum_or_update(gradients));
  bucket.sent = true;
  if (!policy_.switches.buckets) log_.wait(bucket.request);
}

Request GradientReducer::sum_or_update(const GradientBucket& bucket) {
  return optimizer_ != nullptr ? optimizer_->sum_and_update(bucket) : sums_->all_reduce(bucket);
}

std::string GradientReducer::missing_gradients() const {
  std::string missing;
  if (!arena_.has_gradients()) return missing;
  for (const ArenaSlot& slot : arena_.slots()) {
    const Contributions& each = contributions_[static_cast<size_t>(slot.number)];
    if (each.uses == 0 && each.arrived + each.reduced > 0) continue;
    missing += detail::concatenate(missing.empty() ? "'" : ", '", slot.name, "' (");
    missing += each.uses > 0 ? detail::concatenate(each.uses, " forward uses without a backward)") : "never used)";
  }
  return missing;
}

std::string GradientReducer::without_gradient() const {
  for (const ArenaSlot& slot : arena_.slots())
    if (const auto& each = contributions_[static_cast<size_t>(slot.number)]; each.arrived + each.reduced == 0)
      return slot.name;
  return "";
}

void GradientReducer::send_rest() {
  for (const ArenaBundle& bundle : arena_.bundles()) {
    if (bundle_sum(slot_at(bundle.slots.front())).complete == 0) continue;
    for (const int index : bundle.slots)
      if (const ArenaSlot& slot = slot_at(index); !of(slot).complete)
        pack(slot, bundle, /*gradient=*/{}, /*add=*/false, block_of(slot));
    scatter(bundle);
  }
  for (Bucket& bucket : buckets_)
    if (!bucket.sent) send(bucket);
}

void GradientReducer::wait() {
  while (!under_way_.empty()) retire_scatter();
  // The last bucket first: its wait moves all of them, without a pause between two waits.
  for (Bucket& bucket : std::views::reverse(buckets_))
    if (bucket.sent) log_.wait(std::exchange(bucket.request, {}));
}

void GradientReducer::abandon() {
  while (!under_way_.empty()) retire_scatter();
  for (BundleSum& sum : bundle_sums_) {
    if (sum.buffer.defined()) pool_.give_back(std::exchange(sum.buffer, at::Tensor()));
    sum.scatter = {};
  }
  for (Bucket& bucket : buckets_) bucket.request = {};
}

}  // namespace axonn
