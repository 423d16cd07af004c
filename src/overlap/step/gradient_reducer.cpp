#include "overlap/step/gradient_reducer.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include <c10/util/accumulate.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/block_owners.hpp"
#include "axonn/grid/row_share.hpp"

namespace axonn {
GradientReducer::GradientReducer(Arena& arena, const Grid& grid, GradientSums& sums, const OverlapPolicy& policy,
                                 TrafficLog& log, TensorPool& pool)
    : arena_(arena),
      grid_(grid),
      sums_(&sums),
      policy_(policy),
      log_(log),
      pool_(pool),
      contributions_(arena_.slots().size()) {
  policy_changed();
}

void GradientReducer::policy_changed() {
  buckets_.clear();
  for (Contributions& each : contributions_) each.bucket = each.last_bucket = -1;
  cut(arena_.over_z(), /*over_z=*/true, Axis::data);
  cut(arena_.replicated(), /*over_z=*/false, kRowAxes);
}

// Fills each bucket with whole parameters; one message for all when buckets are off. Where owners
// compute on the sums, buckets end at their blocks instead, so a parameter may lie in two.
void GradientReducer::cut(Range section, bool over_z, AxisSet axes) {
  if (grid_.shape().size(axes) == 1 || section.size() == 0) return;
  std::vector<int> order(arena_.slots().size());
  std::iota(order.begin(), order.end(), 0);
  const auto slot_at = [&](int index) -> const ArenaSlot& { return arena_.slots()[static_cast<size_t>(index)]; };
  std::erase_if(order, [&](int index) { return slot_at(index).spec.over_z != over_z; });
  std::ranges::sort(order, {}, [&](int index) { return slot_at(index).offset; });
  const int64_t full = bucket_elements(policy_, section.size(), bytes_per_gradient());
  bool open = false;
  for (const int index : order) {
    const ArenaSlot& slot = slot_at(index);
    const bool full_now = open && slot.offset + slot.stored - buckets_.back().range.begin > full;
    const int64_t begin = open && bucket_sum_ ? slot.offset / BlockOwners::kBlock * BlockOwners::kBlock : slot.offset;
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

void GradientReducer::sum_buckets_by(BucketSum sum) {
  bucket_sum_ = std::move(sum);
  policy_changed();
}

void GradientReducer::begin_step(int micro_batches) {
  micro_batches_ = micro_batches;
  for (Contributions& each : contributions_) each.uses = each.arrived = each.reduced = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int>(bucket.slots.size());
    bucket.sent = false;
  }
}

void GradientReducer::reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor&, bool)>& write) {
  Contributions& mine = of(slot);
  AXONN_CHECK(mine.uses > 0, "overlap.reduce", "a gradient of '", slot.name,
              "' came that no forward of this step asked for; backward must run inside the step of its forward");
  AXONN_CHECK(mine.bucket < 0 || !buckets_[static_cast<size_t>(mine.bucket)].sent, "overlap.reduce", "a gradient of '",
              slot.name, "' came after micro-batch ", micro_batches_,
              ", when it was summed over the grid; tell begin_step({.micro_batches = n})");
  const bool add = mine.arrived > 0 || (!slot.sharded_over_z() && mine.reduced > 0);
  write(block_of(slot), add);
  ++mine.arrived;
  if (--mine.uses == 0) complete(slot);
}

// The buffer in which the contributions of one micro-batch are summed: the arena itself unless the
// parameter is sharded over Z.
at::Tensor GradientReducer::block_of(const ArenaSlot& slot) {
  if (!slot.sharded_over_z()) return arena_.gradient(slot).view(slot.block_shape);
  at::Tensor& block = of(slot).block;
  const int64_t numel = c10::multiply_integers(slot.block_shape);
  if (!block.defined()) block = pool_.take(numel, arena_.gradients().options());
  return block.narrow(0, 0, numel).view(slot.block_shape);
}

// Called when every contribution of a micro-batch has arrived.
void GradientReducer::complete(const ArenaSlot& slot) {
  Contributions& mine = of(slot);
  if (slot.sharded_over_z()) scatter(slot);
  mine.arrived = 0;
  const bool last = ++mine.reduced == micro_batches_;
  if (!last || mine.bucket < 0) return;
  for (int each = mine.bucket; each <= mine.last_bucket; ++each)
    if (Bucket& bucket = buckets_[static_cast<size_t>(each)]; --bucket.missing == 0 && policy_.switches.buckets)
      send(bucket);
}

void GradientReducer::scatter(const ArenaSlot& slot) {
  Contributions& mine = of(slot);
  if (under_way_.size() >= static_cast<size_t>(policy_.outstanding)) retire_scatter();
  const at::Tensor shard = arena_.gradient(slot);
  const at::Tensor whole = mine.block.narrow(0, 0, c10::multiply_integers(slot.block_shape));
  if (mine.reduced > 0) {
    log_.wait(mine.scatter);  // the last micro-batch, which wrote the shard
    whole.narrow(0, slot.range.begin, slot.range.size()).add_(shard);
  }
  mine.scatter = log_.launch(Traffic::reduce_scatter, Axis::z, static_cast<int64_t>(whole.nbytes()), slot.name,
                             sums_->reduce_scatter({.slot = slot, .whole = whole, .shard = shard}));
  under_way_.push_back({.slot = slot.number, .request = mine.scatter, .block = std::move(mine.block)});
  mine.block.reset();
  if (!policy_.switches.reduce_scatter) retire_scatter();
}

void GradientReducer::retire_scatter() {
  Scatter& oldest = under_way_.front();
  log_.wait(oldest.request);
  LoggedRequest& last = contributions_[static_cast<size_t>(oldest.slot)].scatter;
  if (last.line == oldest.request.line) last = {};
  pool_.give_back(std::move(oldest.block));
  under_way_.pop_front();
}

void GradientReducer::send(Bucket& bucket) {
  std::vector<Request> after;
  for (const int index : bucket.slots)
    if (const Request& request = contributions_[static_cast<size_t>(index)].scatter.request; !request.done())
      after.push_back(request);
  const int64_t bytes = bucket.range.size() * bytes_per_gradient();
  const GradientBucket gradients{.arena = arena_, .range = bucket.range, .axes = bucket.axes, .after = after};
  bucket.request = log_.launch(Traffic::data, bucket.axes, bytes, "gradients",
                               bucket_sum_ ? bucket_sum_(gradients) : sums_->all_reduce(gradients));
  bucket.sent = true;
  if (!policy_.switches.buckets) log_.wait(bucket.request);
}

std::string GradientReducer::missing_gradients() const {
  std::string missing;
  for (const ArenaSlot& slot : arena_.slots()) {
    const Contributions& each = contributions_[static_cast<size_t>(slot.number)];
    if (each.uses == 0 && each.reduced > 0) continue;
    missing += detail::concatenate(missing.empty() ? "'" : ", '", slot.name, "' (");
    missing += each.uses > 0 ? detail::concatenate(each.uses, " forward uses without a backward)") : "never used)";
  }
  return missing;
}

std::string GradientReducer::without_gradient() const {
  for (const ArenaSlot& slot : arena_.slots())
    if (contributions_[static_cast<size_t>(slot.number)].reduced == 0) return slot.name;
  return "";
}

void GradientReducer::send_rest() {
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
  for (Contributions& each : contributions_) {
    if (each.block.defined()) pool_.give_back(std::move(each.block));
    each.block.reset();
    each.scatter = {};
  }
  for (Bucket& bucket : buckets_) bucket.request = {};
}

}  // namespace axonn
