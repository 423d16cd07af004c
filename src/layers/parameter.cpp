#include "axonn/layers/parameter.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/core/text.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

// Splits long runs, so that several threads share them.
std::vector<MappedRange> parts_of(const std::vector<MappedRange>& runs) {
  constexpr int64_t kLongest = 1 << 14;
  std::vector<MappedRange> parts;
  for (const MappedRange& mapped : runs)
    for (int64_t done = 0; done < mapped.size; done += kLongest)
      parts.push_back({.local_begin = mapped.local_begin + done,
                       .global_begin = mapped.global_begin + done,
                       .size = std::min(kLongest, mapped.size - done)});
  return parts;
}

}  // namespace

at::Tensor initial_values(const std::string& name, const Initial& initial, const ShardSpec& spec,
                          const GridShape& shape, const Coordinate& at, Range range, uint64_t seed,
                          at::ScalarType dtype) {
  at::Tensor values = at::zeros({range.size()}, at::TensorOptions().dtype(at::kDouble));
  if (initial.kind == Initial::Kind::zeros) return values.to(dtype);
  double* out = values.mutable_data_ptr<double>();
  const uint32_t stream = philox_stream("initial", name);
  const auto drawn = [&](int64_t element) {
    const auto words = philox(seed, static_cast<uint64_t>(element), 0, stream);
    return initial.width * (initial.kind == Initial::Kind::normal ? to_normal(words) : 2 * to_uniform(words[0]) - 1);
  };
  const std::vector<MappedRange> parts = parts_of(mapped_ranges(spec, shape, at, range));
  parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (const MappedRange& part :
         std::span(parts).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))
      for (int64_t i = 0; i < part.size; ++i)
        out[part.local_begin - range.begin + i] =
            initial.kind == Initial::Kind::ones ? 1.0 : drawn(part.global_begin + i);
  });
  return values.to(dtype);
}

ShardedParameter::ShardedParameter(Options options)
    : state_(std::make_shared<State>(State{.options = std::move(options)})) {}

const ArenaSlot& ShardedParameter::slot() const { return state_->arena->slots()[state_->index]; }
at::Tensor ShardedParameter::gradient() const {
  AXONN_CHECK(state_->schedule == nullptr || state_->schedule->whole_gradients(), "layers.gradient",
              "the gradient of '", name(),
              "' is not whole on any rank: the optimizer's schedule reduces only what each rank updates; "
              "schedule ar-opt keeps it");
  return state_->arena->gradient(slot());
}
GatheredWeight ShardedParameter::gathered() const { return state_->schedule->gathered(slot()); }
void ShardedParameter::count_use() const {
  if (trained()) state_->schedule->use(slot());
}
Scheduler& ShardedParameter::scheduler() const { return state_->schedule->scheduler(); }
std::shared_ptr<Scheduler> ShardedParameter::kept_scheduler() const {
  return {state_->schedule, &state_->schedule->scheduler()};
}
void ShardedParameter::reduce(const std::function<void(const at::Tensor& block, bool add)>& write) const {
  if (trained()) state_->schedule->reduce(slot(), write);
}

Parameters::Parameters(std::vector<std::pair<std::string, ShardedParameter>> named, const Grid& grid, int rank,
                       ArenaTypes types, c10::Device device, const InitialDraw& draw,
                       const std::shared_ptr<Scheduler>& scheduler, bool trained)
    : grid_(grid) {
  std::vector<Arena::Entry> entries;
  for (auto& [name, parameter] : named) {
    entries.push_back({.name = name,
                       .spec = parameter.spec(),
                       .decay = parameter.options().decay,
                       .bundle = parameter.options().bundle});
    list_.push_back(parameter);
  }
  const ArenaBuffers trains = trained ? ArenaBuffers::all : ArenaBuffers::weights;
  arena_ =
      std::make_shared<Arena>(entries, grid, rank, types, device, scheduler == nullptr ? ArenaBuffers::none : trains);
  const Coordinate at = grid.coordinate(rank);
  for (size_t i = 0; i < list_.size(); ++i) {
    auto& state = *list_[i].state_;
    state.name = named[i].first;
    state.index = i;
    if (scheduler == nullptr) continue;
    state.arena = arena_;
    const ArenaSlot& slot = arena_->slots()[i];
    state.shard = arena_->weight(slot).detach();
    if (!draw.is_loaded || !draw.is_loaded(state.name))
      arena_->master()
          .narrow(0, slot.offset, slot.range.size())
          .copy_(initial_values(state.name, state.options.initial, slot.spec, grid.shape(), at, slot.range, draw.seed,
                                types.master));
    state.shard.set_requires_grad(trained);
  }
  if (scheduler == nullptr) return;
  const at::NoGradGuard no_grad;
  arena_->round_master();
  schedule_ = {scheduler, &scheduler->add(arena_)};
  for (const ShardedParameter& parameter : list_) parameter.state_->schedule = schedule_;
}

const ShardedParameter& Parameters::operator[](const std::string& name) const {
  std::vector<std::string> names;
  for (const Parameters* some = this; some != nullptr; some = some->frozen())
    for (const ShardedParameter& parameter : some->list()) {
      if (parameter.name() == name) return parameter;
      names.push_back(parameter.name());
    }
  throw UserError("layers.parameters", "no parameter '" + name + "'" + did_you_mean(name, names));
}

Parameters Parameters::with_frozen(Parameters frozen) const {
  Parameters both = *this;
  both.frozen_ = std::make_shared<const Parameters>(std::move(frozen));
  return both;
}

int64_t Parameters::global_numel() const {
  int64_t total = 0;
  for (const auto& parameter : list_) total += parameter.spec().global_numel();
  return total;
}

}  // namespace axonn
