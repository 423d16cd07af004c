#include "overlap/execute/step_loop.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ops/from_blob.h>

#include "axonn/core/error.hpp"

namespace axonn::overlap {
namespace {

constexpr const char* kWhere = "overlap.executor";

PointwiseReduction kind_of(Reduction reduction) {
  return reduction == Reduction::sum   ? PointwiseReduction::sum
         : reduction == Reduction::max ? PointwiseReduction::maximum
                                       : PointwiseReduction::minimum;
}

}  // namespace

StepLoop::StepLoop(const SchedulePlan& plan, const PlanStep& step, ExecutorMemory& memory)
    : memory_(memory),
      plan_(plan),
      program_(plan.program()),
      kernel_(kernel_of(plan, step)),
      chain_(kernel_.kernel, memory.options().instruction_set),
      extents_(extents_of(kernel_.loop, memory.sizes())),
      count_(count_of(extents_)) {
  check_sums();
  for (const StepKernel::Operand& stream : kernel_.streams) {
    is_broadcast_.push_back(stream.type.shape != kernel_.loop);
    stream_broadcasts_.push_back(broadcast_of(stream.type));
  }
  for (const StepKernel::Operand& value : kernel_.range_values) value_broadcasts_.push_back(broadcast_of(value.type));
  const bool by_rows = std::ranges::count(is_broadcast_, true) > 0 || !value_broadcasts_.empty() ||
                       std::ranges::any_of(kernel_.sums, [](const auto& sum) { return !sum.dims.empty(); });
  if (by_rows && !extents_.empty()) piece_ = extents_.back();
  for (const StepKernel::Mask& mask : kernel_.masks)
    masks_.push_back({.probability = mask.probability,
                      .seed = memory.options().seed,
                      .stream = static_cast<uint32_t>(mask.stream),
                      .first = 0});
  streams_.resize(kernel_.streams.size());
  scalars_.resize(kernel_.scalars.size());
  values_.resize(kernel_.range_values.size());
  partials_.resize(kernel_.sums.size());
  call_partials_.resize(kernel_.sums.size());
  partial_places_.resize(kernel_.sums.size());
}

// A sum over some dims is one number per element of the others: those must come first.
void StepLoop::check_sums() const {
  for (const StepKernel::Sum& sum : kernel_.sums) {
    std::vector<int> dims = sum.dims;
    std::ranges::sort(dims);
    for (size_t i = 0; i < dims.size(); ++i)
      AXONN_CHECK(dims[dims.size() - 1 - i] == static_cast<int>(extents_.size() - 1 - i), kWhere, sum.statement,
                  ": sums must be over the last dims, got ", program_.statement(sum.statement).expression.to_string());
  }
}

StepLoop::Broadcast StepLoop::broadcast_of(const TensorType& type) const {
  const Extents own = extents_of(type.shape, memory_.sizes());
  Broadcast broadcast{std::vector<int64_t>(extents_.size(), 0)};
  int64_t stride = 1;
  for (size_t i = 0; i < own.size() && i < extents_.size(); ++i) {
    const int64_t extent = own[own.size() - 1 - i];
    broadcast.strides[extents_.size() - 1 - i] = type.shape[own.size() - 1 - i].is_one() ? 0 : stride;
    stride *= extent;
  }
  return broadcast;
}

int64_t StepLoop::offset_in(const Broadcast& broadcast, int64_t element) const {
  int64_t offset = 0;
  for (size_t i = extents_.size(); i-- > 0;) {
    offset += element % extents_[i] * broadcast.strides[i];
    element /= extents_[i];
  }
  return offset;
}

void StepLoop::begin() {
  for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
    const std::string& name = kernel_.scalars[i];
    if (name == StepKernel::kRanks) {
      scalars_[i] = memory_.ranks();
      continue;
    }
    const auto number = memory_.numbers.find(name);
    AXONN_CHECK(number != memory_.numbers.end(), kWhere, "scalar ", name, " needs a value: set() gives it one");
    scalars_[i] = number->second;
  }
  for (std::vector<Partial>& partials : partials_) partials.clear();
}

void StepLoop::run(int64_t begin, int64_t count, const void* sums, void* results) {
  const auto advance = [](const auto* pointer, int64_t bytes) {
    return pointer == nullptr ? nullptr : static_cast<const std::byte*>(pointer) + bytes;
  };
  const auto bytes = [&](int stream) {
    return stream < 0 ? 0 : bytes_of(kernel_.streams[static_cast<size_t>(stream)].type.element);
  };
  for (int64_t done = 0; done < count;) {
    const int64_t first = begin + done;
    const int64_t piece = piece_ == 0 ? count - done : std::min(count - done, piece_ - first % piece_);
    run_piece(first, piece, advance(sums, done * bytes(kernel_.reduced_stream)),
              const_cast<std::byte*>(advance(results, done * bytes(kernel_.gathered_stream))));
    done += piece;
  }
}

void StepLoop::run_piece(int64_t begin, int64_t count, const void* sums, void* results) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index == kernel_.reduced_stream && sums != nullptr) {
      streams_[i] = const_cast<void*>(sums);
    } else if (index == kernel_.gathered_stream && results != nullptr) {
      streams_[i] = results;
    } else {
      const auto& buffer = memory_.buffer(kernel_.streams[i].buffer);
      const int64_t element = is_broadcast_[i] ? offset_in(stream_broadcasts_[i], begin) : begin;
      streams_[i] = memory_.address(buffer, element);
    }
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto& buffer = memory_.buffer(kernel_.range_values[i].buffer);
    values_[i] = number_at(memory_.address(buffer, offset_in(value_broadcasts_[i], begin)), buffer.dtype);
  }
  for (MaskInput& mask : masks_) mask.first = begin;
  const auto blocks = static_cast<size_t>(StageChain::num_partials(count));
  for (size_t i = 0; i < partials_.size(); ++i) {
    if (call_partials_[i].size() < blocks) call_partials_[i].resize(blocks);
    partial_places_[i] = call_partials_[i].data();
  }
  chain_.run({.count = count,
              .streams = streams_,
              .scalars = scalars_,
              .range_values = values_,
              .masks = masks_,
              .partials = partial_places_});
  for (size_t i = 0; i < partials_.size(); ++i)
    for (size_t block = 0; block < blocks; ++block)
      partials_[i].push_back(
          {begin + static_cast<int64_t>(block) * StageChain::kReductionBlock, call_partials_[i][block]});
}

void StepLoop::run_all() {
  if (!kernel_.distribution.is(Placement::sliced)) return run(0, count_, nullptr, nullptr);
  for (const Range& range : memory_.own_ranges(count_)) run(range.begin, range.size(), nullptr, nullptr);
}

void StepLoop::run_numbers(std::vector<double>& results) {
  for (size_t i = 0; i < streams_.size(); ++i) streams_[i] = &results.at(i);
  chain_.run({.count = 1, .streams = streams_, .scalars = scalars_, .range_values = {}, .masks = {}, .partials = {}});
}

void StepLoop::finish() {
  for (size_t i = 0; i < kernel_.sums.size(); ++i) store_sum(kernel_.sums[i], partials_[i]);
}

// Blocks of fused collectives come in any order; they are added in theirs.
void StepLoop::store_sum(const StepKernel::Sum& sum, std::vector<Partial>& partials) {
  std::ranges::sort(partials, {}, &Partial::begin);
  int64_t inner = count_;
  if (!sum.dims.empty()) {
    inner = 1;
    for (size_t i = extents_.size() - sum.dims.size(); i < extents_.size(); ++i) inner *= extents_[i];
  }
  const PointwiseReduction kind = kind_of(sum.reduction);
  const auto results = static_cast<size_t>(inner == 0 ? 0 : count_ / inner);
  std::vector<std::vector<double>> rows(results);
  for (const Partial& partial : partials) rows[static_cast<size_t>(partial.begin / inner)].push_back(partial.value);
  std::vector<double> totals;
  for (const std::vector<double>& row : rows) {
    const double total = StageChain::combine(kind, row);
    totals.push_back(sum.is_norm ? std::sqrt(total) : total);
  }
  const TensorType& type = program_.type(sum.statement);
  if (type.is_scalar() && type.distribution.is(Placement::replicated)) {
    memory_.numbers[sum.statement] = totals.at(0);
    return;
  }
  const auto& buffer = memory_.buffer(plan_.home(sum.statement));
  buffer.data.copy_(at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble));
}

}  // namespace axonn::overlap
