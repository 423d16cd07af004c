#include "overlap/execute/flat_memory.hpp"

#include <cstring>
#include <set>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;

at::ScalarType dtype_of(ElementType type) {
  switch (type) {
    case ElementType::fp64:
      return at::kDouble;
    case ElementType::fp32:
      return at::kFloat;
    case ElementType::bf16:
      return at::kBFloat16;
    default:
      return at::kHalf;
  }
}

double number_at(const std::byte* address, at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return *reinterpret_cast<const double*>(address);
    case at::kFloat:
      return *reinterpret_cast<const float*>(address);
    case at::kBFloat16:
      return static_cast<float>(*reinterpret_cast<const at::BFloat16*>(address));
    default:
      return static_cast<float>(*reinterpret_cast<const at::Half*>(address));
  }
}

FlatMemory::FlatMemory(const SchedulePlan& plan, const Communicator& ranks, int group, const ExecutorOptions& options)
    : PlanMemory(plan, ranks.size()),
      options_(options),
      rank_(ranks.rank()),
      ranks_(ranks.size()),
      owners_(ranks.size()),
      buffers_(plan.buffers().size()) {
  std::set<BufferId> filled;  // by computations that are fused with their send
  for (const PlanStep& step : plan.steps())
    if (step.kind == StepKind::fused && step.group == group && step.mover) filled.insert(plan.home(step.mover));
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const PlanBuffer& planned = plan.buffers()[i];
    const bool here = planned.type.group == group || planned.type.group == TensorType::kEveryGroup;
    if (!here && !filled.contains(BufferId(i))) continue;
    const Distribution& lies = planned.type.distribution;
    Buffer buffer{.own = lies.is(coconet::Placement::sliced) && !planned.by_dim,
                  .by_dim = planned.by_dim,
                  .extents = extents_of(planned.type.shape, options.sizes),
                  .dim = lies.dim,
                  .dtype = dtype_of(planned.type.element)};
    buffer.count = count_of(buffer.extents);
    int64_t kept = 0;
    for (const Range& range : held(buffer)) kept += range.size();
    buffer.data = at::zeros({kept}, buffer.dtype);
    buffers_[i] = std::move(buffer);
  }
}

const FlatMemory::Buffer* FlatMemory::find(BufferId id) const {
  return id && buffers_[id.index()] ? &*buffers_[id.index()] : nullptr;
}

const FlatMemory::Buffer& FlatMemory::buffer(BufferId id) const {
  const Buffer* const found = find(id);
  AXONN_ASSERT(found != nullptr, id ? plan().name(id) : "no buffer");
  return *found;
}

void FlatMemory::bind(BufferId id, at::Tensor data) {
  Buffer& mine = buffers_[id.index()].value();
  AXONN_CHECK(data.is_contiguous() && data.numel() == mine.data.numel() && data.scalar_type() == mine.dtype,
              "overlap.executor", "the memory of ", plan().name(id), " must be ", mine.data.numel(),
              " contiguous elements of ", c10::toString(mine.dtype), ", got ", data.numel(), " of ",
              c10::toString(data.scalar_type()));
  mine.data = data.view(-1);
}

// The number of an element among this rank's, or of the next one.
int64_t FlatMemory::own_number(int64_t element) const {
  const int64_t first = options_.arena_offset;
  return owners_.count(rank_, {first, first + element});
}

std::byte* FlatMemory::address(const Buffer& buffer, int64_t element) const {
  const int64_t place = buffer.own ? own_number(element) : element;
  return static_cast<std::byte*>(buffer.data.data_ptr()) + place * static_cast<int64_t>(buffer.data.element_size());
}

void FlatMemory::copy_own(const Buffer& from, const Buffer& to) const {
  for (const Range& range : own_ranges(from.count)) {
    const std::byte* source = address(from, range.begin);
    std::byte* target = address(to, range.begin);
    if (source != target) std::memcpy(target, source, static_cast<size_t>(range.size()) * from.data.element_size());
  }
}

at::Tensor FlatMemory::own_elements(const Buffer& buffer) const {
  if (buffer.own) return buffer.data;
  std::vector<at::Tensor> parts;
  for (const Range& range : own_ranges(buffer.count)) parts.push_back(buffer.data.narrow(0, range.begin, range.size()));
  return parts.empty() ? buffer.data.narrow(0, 0, 0) : at::cat(parts);
}

std::vector<Range> FlatMemory::held(const Buffer& buffer) const {
  if (buffer.own) return own_ranges(buffer.count);
  if (!buffer.by_dim) return {{0, buffer.count}};
  const auto dim = static_cast<size_t>(buffer.dim);
  int64_t inner = 1;
  for (size_t i = dim + 1; i < buffer.extents.size(); ++i) inner *= buffer.extents[i];
  const Range own = own_indices(buffer.extents[dim]);
  const int64_t block = buffer.extents[dim] * inner;
  std::vector<Range> ranges;
  for (int64_t begin = 0; begin < buffer.count; begin += block)
    ranges.push_back({begin + own.begin * inner, begin + own.end * inner});
  return ranges;
}

std::vector<Range> FlatMemory::own_ranges(int64_t count) const {
  const int64_t first = options_.arena_offset;
  std::vector<Range> ranges = owners_.ranges(rank_, {first, first + count});
  for (Range& range : ranges) range = {range.begin - first, range.end - first};
  return ranges;
}

}  // namespace axonn
