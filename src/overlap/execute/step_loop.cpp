#include "overlap/execute/step_loop.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
using namespace coconet;
namespace {

const std::byte* advanced(const void* pointer, int64_t bytes) {
  return pointer == nullptr ? nullptr : static_cast<const std::byte*>(pointer) + bytes;
}

}  // namespace

StepLoop::StepLoop(const SchedulePlan& plan, const PlanStep& step, PlanMemory& memory, const LoopOptions& options)
    : memory_(memory),
      options_(options),
      kernel_(kernel_of(plan, step)),
      chain_(kernel_.kernel, options.instruction_set),
      places_(memory.loop(kernel_)),
      scalars_(kernel_.scalars.size()),
      scratch_(make_scratch()) {}

StepLoop::Scratch StepLoop::make_scratch() const {
  const size_t sums = kernel_.sums.size();
  Scratch scratch{.streams = std::vector<void*>(kernel_.streams.size()),
                  .values = std::vector<double>(kernel_.range_values.size()),
                  .masks = {},
                  .blocks = std::vector<std::vector<double>>(sums),
                  .block_places = std::vector<double*>(sums),
                  .partials = std::vector<std::vector<LoopPartial>>(sums)};
  for (const StepKernel::Mask& mask : kernel_.masks)
    scratch.masks.push_back({.probability = mask.probability,
                             .seed = options_.seed,
                             .stream = static_cast<uint32_t>(mask.stream),
                             .first = 0});
  return scratch;
}

void StepLoop::begin() {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const std::optional<double>& number = memory_.number(kernel_.scalars[i]);
    AXONN_CHECK(number, "overlap.executor", "scalar ", memory_.plan().name(kernel_.scalars[i]),
                " needs a value: set() gives it one");
    scalars_[i] = *number;
  }
  for (auto& partials : scratch_.partials) partials.clear();
  for (Scratch& scratch : threads_)
    for (auto& partials : scratch.partials) partials.clear();
}

void StepLoop::run(Range elements, const void* sums, void* results) { run(scratch_, elements, sums, results); }

Epilogue StepLoop::epilogue(int64_t first, std::shared_ptr<void> keeper) {
  return [this, first, keeper = std::move(keeper)](int64_t place, int64_t count, const void* sums, void* results) {
    run({first + place, first + place + count}, sums, results);
  };
}

void StepLoop::run(Scratch& scratch, Range elements, const void* sums, void* results) {
  const auto bytes = [&](int stream) {
    return stream < 0 ? 0 : bytes_of(kernel_.streams[static_cast<size_t>(stream)].type.element);
  };
  const int64_t read = bytes(kernel_.reduced_stream), written = bytes(kernel_.gathered_stream);
  const auto result_of = [&](int64_t element) {
    return const_cast<std::byte*>(advanced(results, (element - elements.begin) * written));
  };
  // Padding is gathered as zeros.
  int64_t done = elements.begin;
  const auto pad_up_to = [&](int64_t end) {
    if (results != nullptr && done < end)
      std::memset(result_of(done), 0, static_cast<size_t>(result_of(end) - result_of(done)));
  };
  places_->for_each_piece(elements, [&](const LoopPiece& piece) {
    pad_up_to(piece.elements.begin);
    done = piece.elements.end;
    run_piece(scratch, piece, advanced(sums, (piece.elements.begin - elements.begin) * read),
              result_of(piece.elements.begin));
  });
  pad_up_to(elements.end);
}

void StepLoop::run_piece(Scratch& scratch, const LoopPiece& piece, const void* sums, void* results) {
  places_->find(piece, scratch.streams, scratch.values);
  const auto hand_over = [&](int stream, void* elements) {
    if (stream >= 0 && elements != nullptr) scratch.streams[static_cast<size_t>(stream)] = elements;
  };
  hand_over(kernel_.reduced_stream, const_cast<void*>(sums));
  hand_over(kernel_.gathered_stream, results);
  for (MaskInput& mask : scratch.masks) mask.first = piece.elements.begin;
  const auto blocks = static_cast<size_t>(StageChain::num_partials(piece.elements.size()));
  for (size_t i = 0; i < scratch.blocks.size(); ++i) {
    if (scratch.blocks[i].size() < blocks) scratch.blocks[i].resize(blocks);
    scratch.block_places[i] = scratch.blocks[i].data();
  }
  chain_.run({.count = piece.elements.size(),
              .streams = scratch.streams,
              .scalars = scalars_,
              .range_values = scratch.values,
              .masks = scratch.masks,
              .partials = scratch.block_places});
  if (!piece.counted) return;
  for (size_t i = 0; i < scratch.blocks.size(); ++i)
    for (size_t block = 0; block < blocks; ++block) {
      const int64_t begin = piece.elements.begin + static_cast<int64_t>(block) * StageChain::kReductionBlock;
      if (piece.region == nullptr || piece.region->owners.owner(begin) == piece.region->member)
        scratch.partials[i].push_back({begin, piece.row, scratch.blocks[i][block]});
    }
}

void StepLoop::run_tasks(std::span<const Range> tasks) {
  while (std::ssize(threads_) < at::get_num_threads()) threads_.push_back(make_scratch());
  const int threads = options_.threads;
  const int64_t grain = threads == 0 ? 1 : (std::ssize(tasks) + threads - 1) / threads;  // tasks of a thread
  parallel_for(0, std::ssize(tasks), std::max<int64_t>(grain, 1), [&](int64_t first, int64_t last) {
    Scratch& scratch = threads_[static_cast<size_t>(at::get_thread_num())];
    for (int64_t i = first; i < last; ++i) run(scratch, tasks[static_cast<size_t>(i)], nullptr, nullptr);
  });
}

// Its streams are the results.
void StepLoop::run_numbers() {
  std::vector<double> results(scratch_.streams.size());
  for (size_t i = 0; i < results.size(); ++i) scratch_.streams[i] = &results[i];
  chain_.run(
      {.count = 1, .streams = scratch_.streams, .scalars = scalars_, .range_values = {}, .masks = {}, .partials = {}});
  for (size_t i = 0; i < results.size(); ++i) memory_.set(kernel_.streams[i].value, results[i]);
}

// Blocks come in any order; they are added in theirs.
void StepLoop::finish() {
  for (size_t i = 0; i < kernel_.sums.size(); ++i) {
    std::vector<LoopPartial>& partials = scratch_.partials[i];
    for (Scratch& scratch : threads_) {
      partials.insert(partials.end(), scratch.partials[i].begin(), scratch.partials[i].end());
      scratch.partials[i].clear();
    }
    std::ranges::sort(partials, {}, &LoopPartial::begin);
    places_->store(kernel_.sums[i], partials);
  }
}

}  // namespace axonn
