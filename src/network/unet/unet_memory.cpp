#include "axonn/network/unet/unet_memory.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

using Kind = UnetStage::Kind;
constexpr int64_t kTaps = 9;  // 3x3 convolution

}  // namespace

UnetMemory::UnetMemory(const UnetShape& shape) : shape_(shape) {
  check_unet(shape);
  const int64_t e = shape.embedding();
  add_weight(Axis::y, shape.base, e, 1);
  add_weight(Axis::x, e, e, 1);
  if (shape.classes > 0)
    add_tensor({.dims = {Dim::padded(shape.classes, Axis::x), Dim::split(e, Axis::y)}, .over_z = true});
  for (const UnetStage& stage : unet_stages(shape)) add(stage);
}

void UnetMemory::add(const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  const int64_t pixels = stage.size * stage.size, in = pixels * stage.in, out = pixels * stage.out;
  if (stage.kind != Kind::first) kept_.emplace_back().input[static_cast<size_t>(a)] = in;
  const auto at = [a](int64_t of_a, int64_t of_b) { return a == Axis::x ? ByAxis{of_a, of_b} : ByAxis{of_b, of_a}; };
  switch (stage.kind) {
    case Kind::first:
      add_tensor({.dims = {Dim::split(stage.out, Axis::y), Dim::whole(kTaps * stage.in)}, .over_z = true});
      add_vector(Axis::y, stage.out);
      break;
    case Kind::residual:
      for (const int64_t size : {stage.in, stage.in}) add_vector(a, size);
      for (const int64_t size : {stage.out, stage.out}) add_vector(b, size);
      add_weight(a, stage.in, stage.out, kTaps);
      add_weight(a, shape_.embedding(), shape_.conditioning(stage.out), 1);
      add_weight(b, stage.out, stage.out, kTaps);
      if (stage.in != stage.out) add_weight(a, stage.in, stage.out, 1);
      keep(a, 3 * in);
      keep(b, 2 * out + shape_.conditioning(out));
      kept_.back().dropped[static_cast<size_t>(b)] = out;
      backward_.push_back(at(out, 2 * out));
      backward_.push_back(at(out + 2 * in, out));
      break;
    case Kind::attention:
      for (const int64_t size : {stage.in, stage.in}) add_vector(a, size);
      add_weight(a, stage.in, 3 * stage.in, 1);
      add_weight(b, stage.in, stage.in, 1);
      keep(a, 2 * in);
      keep(b, 4 * in);
      kept_.back().sums[static_cast<size_t>(b)] = pixels * shape_.heads;
      kept_.back().mixed[static_cast<size_t>(b)] = in;
      backward_.push_back(at(2 * in, 4 * in));
      break;
    case Kind::down:
      add_weight(a, stage.in, stage.out, kTaps);
      keep(a, in);
      backward_.push_back(at(in, out / 4));
      break;
    case Kind::up:
      add_weight(a, stage.in, stage.out, kTaps);
      keep(a, 4 * in);
      backward_.push_back(at(5 * in, 4 * out));
      break;
    case Kind::last:
      for (const int64_t size : {stage.in, stage.in}) add_vector(Axis::y, size);
      add_tensor({.dims = {Dim::whole(stage.out), Dim::whole(kTaps), Dim::split(stage.in, Axis::y)}, .over_z = true});
      add_tensor({.dims = {Dim::whole(stage.out)}});
      keep(Axis::y, 3 * in);
      backward_.push_back(at(2 * in, 0));
      break;
  }
}

void UnetMemory::add_weight(Axis from, int64_t in, int64_t out, int64_t taps) {
  const Axis to = other_tensor_axis(from);
  add_tensor({.dims = {Dim::split(out, to), Dim::whole(taps), Dim::split(in, from)}, .over_z = true});
  add_vector(to, out);
}

void UnetMemory::add_tensor(ShardSpec spec) {
  const auto known = std::ranges::find(tensors_, spec, &StoredTensors::spec);
  if (known == tensors_.end())
    tensors_.push_back({.spec = std::move(spec)});
  else
    ++known->count;
}

UnetMemory::ByAxis UnetMemory::Kept::of(const GridShape& grid, const MemoryOptions& options) const {
  ByAxis elements = all;
  for (const Axis axis : {Axis::x, Axis::y}) {
    const auto i = static_cast<size_t>(axis);
    const int64_t ranks = options.attention_rows ? grid[other_tensor_axis(axis)] : 1;
    elements[i] += ranks > 1 ? (sums[i] + mixed[i] + ranks - 1) / ranks : sums[i];
    if (options.dropout) elements[i] += dropped[i];
  }
  return elements;
}

template <typename OnRank>
int64_t UnetMemory::activation_elements(const GridShape& grid, const MemoryOptions& options,
                                        const OnRank& on_rank) const {
  ByAxis kept{};
  int64_t again = 0;  // elements of the checkpointed stage that needs most, while it is run again
  const auto add = [&kept](const ByAxis& elements) { kept = {kept[0] + elements[0], kept[1] + elements[1]}; };
  for (size_t i = 0; i < kept_.size(); ++i) {
    const ByAxis all = kept_[i].of(grid, options);
    const bool block = i + 1 < kept_.size();  // the last norm and convolution are not a block
    if (block && options.checkpoint_every > 0 && static_cast<int64_t>(i) % options.checkpoint_every == 0) {
      add(kept_[i].input);
      again = std::max(again, on_rank(all));
    } else {
      add(all);
    }
  }
  return on_rank(kept) + again;
}

MemoryPrediction UnetMemory::predict(const GridShape& grid, const MemoryOptions& options) const {
  check_shape(grid, grid.ranks());
  const auto on_rank = [&](const ByAxis& elements) {
    return (elements[0] + grid.x - 1) / grid.x + (elements[1] + grid.y - 1) / grid.y;
  };
  MemoryPrediction memory = predict_stored(tensors_, grid, options);
  const int64_t bytes = options.micro_batch * options.element_bytes;
  int64_t widest = 0;
  for (const ByAxis& elements : backward_) widest = std::max(widest, on_rank(elements));
  memory.activation_bytes = activation_elements(grid, options, on_rank) * bytes;
  memory.logits_bytes = 3 * shape_.output_channels() * shape_.image * shape_.image * bytes;
  memory.block_bytes = widest * bytes;
  return memory;
}

MemoryPrediction predict_memory(const UnetShape& shape, const GridShape& grid, const MemoryOptions& options) {
  return UnetMemory(shape).predict(grid, options);
}

}  // namespace axonn
