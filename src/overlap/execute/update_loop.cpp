#include "overlap/execute/update_loop.hpp"

#include <algorithm>
#include <cstring>

#include <ATen/Parallel.h>

#include "axonn/core/error.hpp"
#include "overlap/execute/executor_memory.hpp"

namespace axonn {
using namespace coconet;
namespace {

// Elements per task of a thread.
constexpr int64_t kTask = int64_t{1} << 15;

const std::byte* advanced(const void* pointer, int64_t bytes) {
  return pointer == nullptr ? nullptr : static_cast<const std::byte*>(pointer) + bytes;
}

bool has_elements(const Shape& shape) { return shape.size() == 2 && !shape[1].is_one(); }

// The loop stores nothing but reductions: then nobody needs the elements of other owners.
bool only_reduces(const StepKernel& kernel) { return kernel.kernel.stores().empty(); }

}  // namespace

UpdateLoop::UpdateLoop(const SchedulePlan& plan, const PlanStep& step, UpdateMemory& memory,
                       const RunSettings& settings, InstructionSet instruction_set)
    : memory_(memory),
      most_threads_(settings.threads),
      kernel_(kernel_of(plan, step)),
      chain_(kernel_.kernel, instruction_set),
      over_elements_(step.kind != StepKind::scalars && has_elements(kernel_.loop)) {
  own_only_ = kernel_.distribution.is(coconet::Placement::sliced) || only_reduces(kernel_);
  if (!step.reducer.empty()) gradients_ = plan.program().statement(step.reducer).expression.operands()[0].name();
  scalars_.resize(kernel_.scalars.size());
  partials_.resize(kernel_.sums.size());
  numbers_.resize(kernel_.scalars.size());
  if (step.kind == StepKind::scalars) {  // its streams are numbers of the host
    for (const StepKernel::Operand& result : kernel_.streams) results_.push_back(&memory.numbers[result.value]);
    return;
  }
  for (size_t i = 0; i < kernel_.streams.size(); ++i) {
    const bool handed_over = static_cast<int>(i) == kernel_.reduced_stream;
    streams_.push_back(&memory.buffer(handed_over ? gradients_ : kernel_.streams[i].buffer));
  }
  for (const StepKernel::Operand& value : kernel_.range_values) values_.push_back(&memory.buffer(value.buffer));
  scratch_ = make_scratch();
}

UpdateLoop::Scratch UpdateLoop::make_scratch() const {
  Scratch scratch;
  scratch.streams.resize(kernel_.streams.size());
  scratch.values.resize(kernel_.range_values.size());
  scratch.block_partials.resize(kernel_.sums.size());
  scratch.places.resize(kernel_.sums.size());
  scratch.partials.resize(kernel_.sums.size());
  return scratch;
}

void UpdateLoop::begin() {
  for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
    if (numbers_[i] == nullptr) {
      const auto number = memory_.numbers.find(kernel_.scalars[i]);
      AXONN_CHECK(number != memory_.numbers.end(), "overlap.update", "scalar ", kernel_.scalars[i], " needs a value");
      numbers_[i] = &number->second;
    }
    scalars_[i] = *numbers_[i];
  }
  for (auto& partials : partials_) partials.clear();
  for (auto& partials : scratch_.partials) partials.clear();
  for (Scratch& scratch : threads_)
    for (auto& partials : scratch.partials) partials.clear();
}

void UpdateLoop::run(const UpdateRegion& region, int64_t begin, int64_t count, const void* sums, void* results) {
  run(scratch_, region, begin, count, sums, results);
}

void UpdateLoop::run(Scratch& scratch, const UpdateRegion& region, int64_t begin, int64_t count, const void* sums,
                     void* results) {
  const auto bytes = [&](int stream) {
    return stream < 0 ? 0 : bytes_of(kernel_.streams[static_cast<size_t>(stream)].type.element);
  };
  const auto at_element = [&](int64_t element) {
    return const_cast<std::byte*>(advanced(results, (element - begin) * bytes(kernel_.gathered_stream)));
  };
  // Padding between parameters is gathered as zeros.
  int64_t done = begin;
  const auto pad_up_to = [&](int64_t end) {
    if (results != nullptr && done < end)
      std::memset(at_element(done), 0, static_cast<size_t>(at_element(end) - at_element(done)));
  };
  for (auto piece = memory_.piece_at(region, begin); piece != region.pieces.end() && piece->range.begin < begin + count;
       ++piece) {
    const Range part{std::max(begin, piece->range.begin), std::min(begin + count, piece->range.end)};
    pad_up_to(part.begin);
    done = part.end;
    // Reductions are cut where every schedule cuts them.
    for (int64_t at = part.begin; at < part.end;) {
      const int64_t aligned = (at / kEpilogueUnit + 1) * kEpilogueUnit;
      const bool starts_inside = !kernel_.sums.empty() && at % kEpilogueUnit != 0;
      const int64_t end = starts_inside ? std::min(part.end, aligned) : part.end;
      run_piece(scratch, region, *piece, {at, end}, advanced(sums, (at - begin) * bytes(kernel_.reduced_stream)),
                at_element(at));
      at = end;
    }
  }
  pad_up_to(begin + count);
}

void UpdateLoop::run_piece(Scratch& scratch, const UpdateRegion& region, const UpdatePiece& piece, Range elements,
                           const void* sums, void* results) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index == kernel_.reduced_stream && sums != nullptr)
      scratch.streams[i] = const_cast<void*>(sums);
    else if (index == kernel_.gathered_stream && results != nullptr)
      scratch.streams[i] = results;
    else
      scratch.streams[i] = memory_.address(*streams_[i], region, elements.begin);
  }
  for (size_t i = 0; i < values_.size(); ++i)
    scratch.values[i] = number_at(memory_.row_address(*values_[i], piece.slot), values_[i]->data.scalar_type());
  const auto blocks = static_cast<size_t>(StageChain::num_partials(elements.size()));
  for (size_t i = 0; i < kernel_.sums.size(); ++i) {
    if (scratch.block_partials[i].size() < blocks) scratch.block_partials[i].resize(blocks);
    scratch.places[i] = scratch.block_partials[i].data();
  }
  chain_.run({.count = elements.size(),
              .streams = scratch.streams,
              .scalars = scalars_,
              .range_values = scratch.values,
              .masks = {},
              .partials = scratch.places});
  if (!piece.counted) return;
  for (size_t i = 0; i < kernel_.sums.size(); ++i)
    for (size_t block = 0; block < blocks; ++block) {
      const int64_t begin = elements.begin + static_cast<int64_t>(block) * StageChain::kReductionBlock;
      if (region.owners.owner(begin) == region.member)
        scratch.partials[i].push_back({begin, piece.slot, scratch.block_partials[i][block]});
    }
}

void UpdateLoop::run_region(const UpdateRegion& region) {
  std::vector<Range> tasks;
  const auto add = [&](Range range) {
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t end = std::min(range.end, (begin / kTask + 1) * kTask);
      tasks.push_back({begin, end});
      begin = end;
    }
  };
  if (own_only_)
    std::ranges::for_each(region.own, add);
  else
    add(region.range);
  while (std::ssize(threads_) < at::get_num_threads()) threads_.push_back(make_scratch());
  const auto count = static_cast<int64_t>(tasks.size());
  const int64_t grain = most_threads_ == 0 ? 1 : (count + most_threads_ - 1) / most_threads_;  // tasks of a thread
  at::parallel_for(0, count, std::max<int64_t>(grain, 1), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Range task = tasks[static_cast<size_t>(i)];
      run(threads_[static_cast<size_t>(at::get_thread_num())], region, task.begin, task.size(), nullptr, nullptr);
    }
  });
}

void UpdateLoop::collect(Scratch& scratch) {
  for (size_t i = 0; i < partials_.size(); ++i) {
    partials_[i].insert(partials_[i].end(), scratch.partials[i].begin(), scratch.partials[i].end());
    scratch.partials[i].clear();
  }
}

void UpdateLoop::run_numbers() {
  if (!results_.empty()) {
    const std::vector<void*> places(results_.begin(), results_.end());
    return chain_.run(
        {.count = 1, .streams = places, .scalars = scalars_, .range_values = {}, .masks = {}, .partials = {}});
  }
  for (size_t i = 0; i < streams_.size(); ++i) scratch_.streams[i] = streams_[i]->data.data_ptr();
  const auto blocks = static_cast<size_t>(StageChain::num_partials(memory_.slots()));
  for (size_t i = 0; i < kernel_.sums.size(); ++i) {
    scratch_.block_partials[i].resize(blocks);
    scratch_.places[i] = scratch_.block_partials[i].data();
  }
  chain_.run({.count = memory_.slots(),
              .streams = scratch_.streams,
              .scalars = scalars_,
              .range_values = {},
              .masks = {},
              .partials = scratch_.places});
  for (size_t i = 0; i < kernel_.sums.size(); ++i)
    for (const double value : scratch_.block_partials[i]) partials_[i].push_back({0, 0, value});
}

// Blocks come in any order; they are added in theirs.
void UpdateLoop::finish() {
  collect(scratch_);
  for (Scratch& scratch : threads_) collect(scratch);
  for (size_t i = 0; i < kernel_.sums.size(); ++i) {
    const StepKernel::Sum& sum = kernel_.sums[i];
    std::ranges::sort(partials_[i], {}, &Partial::begin);
    const bool by_slot = over_elements_ && !sum.dims.empty();
    std::vector<std::vector<double>> rows(by_slot ? static_cast<size_t>(memory_.slots()) : 1);
    for (const Partial& partial : partials_[i])
      rows[by_slot ? static_cast<size_t>(partial.slot) : 0].push_back(partial.value);
    std::vector<double>& results = memory_.partials[sum.statement];
    results.clear();
    for (const std::vector<double>& row : rows) results.push_back(StageChain::combine(sum.reduction, row));
  }
}

}  // namespace axonn
