#include "overlap/execute/step_loop.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.executor";
constexpr int64_t kTask = int64_t{1} << 15;  // elements at least per task of a thread

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
    scratch_.masks.push_back({.probability = mask.probability,
                              .seed = memory.options().seed,
                              .stream = static_cast<uint32_t>(mask.stream),
                              .first = 0});
  scalars_.resize(kernel_.scalars.size());
  scratch_.streams.resize(kernel_.streams.size());
  scratch_.values.resize(kernel_.range_values.size());
  scratch_.partials.resize(kernel_.sums.size());
  scratch_.call_partials.resize(kernel_.sums.size());
  scratch_.partial_places.resize(kernel_.sums.size());
}

// A sum over some dims is one number per element of the others: those must come first.
void StepLoop::check_sums() const {
  for (const StepKernel::Sum& sum : kernel_.sums) {
    std::vector<int> dims = sum.dims;
    std::ranges::sort(dims);
    for (size_t i = 0; i < dims.size(); ++i)
      AXONN_CHECK(dims[dims.size() - 1 - i] == static_cast<int>(extents_.size() - 1 - i), kWhere, sum.statement,
                  ": sums must be over the last dims, got ",
                  program_.written(program_.statement(sum.statement).expression));
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
  for (std::vector<Partial>& partials : scratch_.partials) partials.clear();
}

void StepLoop::run(int64_t begin, int64_t count, const void* sums, void* results) {
  run(scratch_, begin, count, sums, results);
}

void StepLoop::run(Scratch& scratch, int64_t begin, int64_t count, const void* sums, void* results) {
  const auto advance = [](const auto* pointer, int64_t bytes) {
    return pointer == nullptr ? nullptr : static_cast<const std::byte*>(pointer) + bytes;
  };
  const auto bytes = [&](int stream) {
    return stream < 0 ? 0 : bytes_of(kernel_.streams[static_cast<size_t>(stream)].type.element);
  };
  for (int64_t done = 0; done < count;) {
    const int64_t first = begin + done;
    const int64_t piece = piece_ == 0 ? count - done : std::min(count - done, piece_ - first % piece_);
    run_piece(scratch, first, piece, advance(sums, done * bytes(kernel_.reduced_stream)),
              const_cast<std::byte*>(advance(results, done * bytes(kernel_.gathered_stream))));
    done += piece;
  }
}

void StepLoop::run_piece(Scratch& scratch, int64_t begin, int64_t count, const void* sums, void* results) {
  for (size_t i = 0; i < scratch.streams.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index == kernel_.reduced_stream && sums != nullptr) {
      scratch.streams[i] = const_cast<void*>(sums);
    } else if (index == kernel_.gathered_stream && results != nullptr) {
      scratch.streams[i] = results;
    } else {
      const auto& buffer = memory_.buffer(kernel_.streams[i].buffer);
      const int64_t element = is_broadcast_[i] ? offset_in(stream_broadcasts_[i], begin) : begin;
      scratch.streams[i] = memory_.address(buffer, element);
    }
  }
  for (size_t i = 0; i < scratch.values.size(); ++i) {
    const auto& buffer = memory_.buffer(kernel_.range_values[i].buffer);
    scratch.values[i] = number_at(memory_.address(buffer, offset_in(value_broadcasts_[i], begin)), buffer.dtype);
  }
  for (MaskInput& mask : scratch.masks) mask.first = begin;
  const auto blocks = static_cast<size_t>(StageChain::num_partials(count));
  for (size_t i = 0; i < scratch.partials.size(); ++i) {
    if (scratch.call_partials[i].size() < blocks) scratch.call_partials[i].resize(blocks);
    scratch.partial_places[i] = scratch.call_partials[i].data();
  }
  chain_.run({.count = count,
              .streams = scratch.streams,
              .scalars = scalars_,
              .range_values = scratch.values,
              .masks = scratch.masks,
              .partials = scratch.partial_places});
  for (size_t i = 0; i < scratch.partials.size(); ++i)
    for (size_t block = 0; block < blocks; ++block)
      scratch.partials[i].push_back(
          {begin + static_cast<int64_t>(block) * StageChain::kReductionBlock, scratch.call_partials[i][block]});
}

// Cut where blocks of reductions end, or pieces: so the bits do not depend on the tasks.
std::vector<Range> StepLoop::tasks() const {
  const bool sliced = kernel_.distribution.is(coconet::Placement::sliced);
  const std::vector<Range> ranges = sliced ? memory_.own_ranges(count_) : std::vector<Range>{{0, count_}};
  const int64_t unit = piece_ == 0 ? StageChain::kReductionBlock : piece_;
  const int64_t task = (kTask + unit - 1) / unit * unit;
  std::vector<Range> tasks;
  for (const Range& range : ranges)
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t cut = piece_ == 0 ? begin + task : (begin / task + 1) * task;
      tasks.push_back({begin, std::min(range.end, cut)});
      begin = tasks.back().end;
    }
  return tasks;
}

void StepLoop::run_all() {
  const std::vector<Range> tasks = this->tasks();
  const int threads = memory_.options().run.threads, all = at::get_num_threads();
  while (std::ssize(threads_) < all) threads_.push_back(scratch_);
  const auto count = static_cast<int64_t>(tasks.size());
  const int64_t grain = threads == 0 ? 1 : (count + threads - 1) / threads;
  at::parallel_for(0, count, std::max<int64_t>(grain, 1), [&](int64_t first, int64_t last) {
    Scratch& scratch = threads_[static_cast<size_t>(at::get_thread_num())];
    for (int64_t i = first; i < last; ++i)
      run(scratch, tasks[static_cast<size_t>(i)].begin, tasks[static_cast<size_t>(i)].size(), nullptr, nullptr);
  });
  for (Scratch& scratch : threads_)
    for (size_t i = 0; i < scratch.partials.size(); ++i) {
      scratch_.partials[i].insert(scratch_.partials[i].end(), scratch.partials[i].begin(), scratch.partials[i].end());
      scratch.partials[i].clear();
    }
}

void StepLoop::run_numbers(std::vector<double>& results) {
  for (size_t i = 0; i < scratch_.streams.size(); ++i) scratch_.streams[i] = &results.at(i);
  chain_.run(
      {.count = 1, .streams = scratch_.streams, .scalars = scalars_, .range_values = {}, .masks = {}, .partials = {}});
}

void StepLoop::finish() {
  for (size_t i = 0; i < kernel_.sums.size(); ++i) store_sum(kernel_.sums[i], scratch_.partials[i]);
}

// Blocks of fused collectives come in any order; they are added in theirs.
void StepLoop::store_sum(const StepKernel::Sum& sum, std::vector<Partial>& partials) {
  std::ranges::sort(partials, {}, &Partial::begin);
  int64_t inner = count_;
  if (!sum.dims.empty()) {
    inner = 1;
    for (size_t i = extents_.size() - sum.dims.size(); i < extents_.size(); ++i) inner *= extents_[i];
  }
  const ReduceOp kind = sum.reduction;
  const auto results = static_cast<size_t>(inner == 0 ? 0 : count_ / inner);
  std::vector<std::vector<double>> rows(results);
  for (const Partial& partial : partials) rows[static_cast<size_t>(partial.begin / inner)].push_back(partial.value);
  std::vector<double> totals;
  for (const std::vector<double>& row : rows) {
    const double total = StageChain::combine(kind, row);
    totals.push_back(sum.is_norm ? std::sqrt(total) : total);
  }
  const TensorType& type = program_.type(sum.statement);
  if (type.is_scalar() && type.distribution.is(coconet::Placement::replicated)) {
    memory_.numbers[sum.statement] = totals.at(0);
    return;
  }
  const auto& buffer = memory_.buffer(plan_.home(sum.statement));
  buffer.data.copy_(at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble));
}

}  // namespace axonn
