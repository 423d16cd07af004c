#include "overlap/step/weight_gatherer.hpp"

#include <algorithm>
#include <ranges>
#include <numeric>
#include <utility>

#include "axonn/core/log.hpp"
#include "axonn/core/text.hpp"
#include "overlap/step/bundle_blocks.hpp"

namespace axonn {
namespace {

// Cost of starting a gather, in bytes. Per byte, small weights therefore gain more from the cache.
constexpr double kStartBytes = 64 << 10;

bool is_gathered(const ArenaBundle& bundle) { return bundle.counts.size() > 1; }

bool meet(const WrittenRange& written, const ArenaBundle& bundle) {
  return written.range.begin < bundle.range.end && bundle.range.begin < written.range.end;
}

}  // namespace

WeightGatherer::WeightGatherer(const Arena& arena, Communicators& communicators, const OverlapPolicy& policy,
                               TrafficLog& log, std::shared_ptr<TensorPool> pool)
    : arena_(arena),
      communicators_(communicators),
      policy_(policy),
      log_(log),
      pool_(std::move(pool)),
      weights_(arena.bundles().size()),
      version_(version()) {
  policy_changed();
}

void WeightGatherer::policy_changed() {
  drop_all();
  choose_kept();
  warn_if_too_small();
}

// A budget that holds no weight is a mistake, but it costs only speed.
void WeightGatherer::warn_if_too_small() const {
  if (!policy_.switches.cache || std::ranges::any_of(weights_, &Weight::kept)) return;
  const ArenaBundle* smallest = nullptr;
  for (const ArenaBundle& bundle : arena_.bundles())
    if (is_gathered(bundle) && (smallest == nullptr || bytes(bundle) < bytes(*smallest))) smallest = &bundle;
  if (smallest == nullptr) return;
  log::warn("the cache of gathered weights (", bytes_text(static_cast<double>(policy_.cache_budget.bytes)),
            ") is smaller than the smallest weight ('", smallest->name, "', ",
            bytes_text(static_cast<double>(bytes(*smallest))), "): every weight is gathered at each use");
}

GatheredWeight WeightGatherer::gathered(const ArenaBundle& bundle, Phase phase, bool update_follows) {
  if (!is_gathered(bundle)) {
    wait_for_writers_of(bundle);
    return {arena_.weight(arena_.slots()[static_cast<size_t>(bundle.slots.front())]), nullptr};
  }
  const int index = static_cast<int>(&bundle - arena_.bundles().data());
  Weight& weight = weights_[static_cast<size_t>(index)];
  forget_if_changed();
  phase_ = phase;
  order_.note({phase, index, std::exchange(fresh_, false)});
  ++weight.uses;
  std::erase(ahead_, index);
  if (!weight.here()) {
    ++counters_.blocking;
    launch(index);
  }
  arrive(index);
  GatheredWeight result(weight.whole->narrow(0, 0, bundle.numel()), weight.whole);
  if (policy_.switches.all_gather) look_ahead(update_follows);
  const bool comes_again = std::ranges::find(ahead_, index) != ahead_.end();
  if (!weight.kept && !comes_again) weight.whole.reset();
  return result;
}

void WeightGatherer::begin_step() {
  forget_if_changed();
  if (policy_.switches.all_gather) look_ahead(/*update_follows=*/false);
}

std::shared_ptr<const at::Tensor> WeightGatherer::borrow(const ArenaBundle& bundle) {
  return {new at::Tensor(pool_->take(bundle.numel(), arena_.weights().options())),
          [pool = pool_](const at::Tensor* buffer) {
            pool->give_back(*buffer);
            delete buffer;
          }};
}

void WeightGatherer::launch(int index) {
  const ArenaBundle& bundle = bundle_at(index);
  Weight& weight = weights_[static_cast<size_t>(index)];
  weight.arriving = borrow(bundle);
  const at::Tensor buffer = weight.arriving->narrow(0, 0, bundle.numel());
  std::vector<Request> writers;
  for (const WrittenRange& written : writing_)
    if (meet(written, bundle)) writers.push_back(written.valid_at.request);
  const CollectiveOptions options{.priority = queue_of(Traffic::all_gather), .after = writers, .tag = bundle.name};
  const at::Tensor shard = arena_.weights().narrow(0, bundle.range.begin, bundle.range.size());
  weight.request = log_.launch(Traffic::all_gather, Axis::z, static_cast<int64_t>(buffer.nbytes()), bundle.name,
                               communicators_[Axis::z].all_gather(shard, buffer, bundle.counts, options));
  ++counters_.gathers;
}

// Waits for it, and unpacks it.
void WeightGatherer::arrive(int index) {
  Weight& weight = weights_[static_cast<size_t>(index)];
  if (!weight.arriving) return;
  log_.wait(std::exchange(weight.request, {}));
  const ArenaBundle& bundle = bundle_at(index);
  const auto buffer = std::exchange(weight.arriving, nullptr);
  weight.whole = bundle.single() ? buffer : borrow(bundle);
  if (!bundle.single())
    unpack(arena_, bundle, buffer->narrow(0, 0, bundle.numel()), weight.whole->narrow(0, 0, bundle.numel()));
}

void WeightGatherer::drop(Weight& weight) {
  if (weight.arriving) log_.wait(std::exchange(weight.request, {}));
  weight.arriving.reset();
  weight.whole.reset();
}

void WeightGatherer::drop_all() {
  ahead_.clear();
  for (Weight& weight : weights_) drop(weight);
}

void WeightGatherer::look_ahead(bool update_follows) {
  auto& coming = order_.predict(policy_.prefetch);
  const auto of_this_pass = [](Phase phase) { return phase == Phase::backward || phase == Phase::recompute; };
  if (update_follows && of_this_pass(phase_)) {  // whatever comes after the pass needs the updated weights
    const auto next_pass = std::ranges::find_if_not(coming, of_this_pass, &GatherOrder::Place::phase);
    coming.erase(next_pass, coming.end());
  }
  // Nor does anything go ahead of the update before which it came the last time.
  const auto first = coming.begin() + (fresh_ && !coming.empty() ? 1 : 0);
  coming.erase(std::find_if(first, coming.end(), [](const auto& place) { return place.updated; }), coming.end());
  std::erase_if(ahead_, [&](int index) {
    const bool comes = std::ranges::find(coming, index, &GatherOrder::Place::weight) != coming.end();
    if (!comes) {
      drop(weights_[static_cast<size_t>(index)]);
      ++counters_.useless;
    }
    return !comes;
  });
  for (const auto& place : coming) {
    const Weight& weight = weights_[static_cast<size_t>(place.weight)];
    if (weight.kept && weight.here()) continue;
    if (!weight.here()) launch(place.weight);
    if (std::ranges::find(ahead_, place.weight) == ahead_.end()) ahead_.push_back(place.weight);
  }
}

void WeightGatherer::written(std::vector<WrittenRange> ranges) {
  wait_for_writers();
  forget();
  writing_ = std::move(ranges);
}

void WeightGatherer::wait_for_writers_of(const ArenaBundle& bundle) {
  std::erase_if(writing_, [&](const WrittenRange& written) {
    if (!meet(written, bundle)) return false;
    log_.wait(written.valid_at);
    return true;
  });
}

void WeightGatherer::wait_for_writers() {
  // The last range first: its wait moves all of them, without a pause between two waits.
  for (const WrittenRange& written : std::views::reverse(writing_)) log_.wait(written.valid_at);
  writing_.clear();
}

void WeightGatherer::forget_if_changed() {
  if (version() != version_) forget();
}

void WeightGatherer::forget() {
  version_ = version();
  fresh_ = true;
  drop_all();
  for (Weight& weight : weights_) weight.uses_before = std::exchange(weight.uses, 0);
  choose_kept();
}

int64_t WeightGatherer::bytes(const ArenaBundle& bundle) const {
  return bundle.numel() * arena_.weights().element_size();
}

// Keeps the weights with the largest gain per byte. The gain is the cost of the gathers saved.
void WeightGatherer::choose_kept() {
  std::vector<int> order(weights_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int index) { return !is_gathered(bundle_at(index)); });
  const auto size = [&](int index) { return bytes(bundle_at(index)); };
  const auto gain = [&](int index) {
    const int uses = weights_[static_cast<size_t>(index)].uses_before;  // 0: not known yet
    return static_cast<double>(uses == 0 ? 1 : uses - 1) * (1 + kStartBytes / static_cast<double>(size(index)));
  };
  std::ranges::stable_sort(order, std::greater<>(), gain);
  int64_t bytes_left = policy_.switches.cache ? policy_.cache_budget.bytes : 0, left = policy_.cache_budget.layers;
  for (const int index : order) {
    Weight& weight = weights_[static_cast<size_t>(index)];
    weight.kept = gain(index) > 0 && left > 0 && size(index) <= bytes_left;
    if (!weight.kept) continue;
    bytes_left -= size(index);
    --left;
  }
}

}  // namespace axonn
