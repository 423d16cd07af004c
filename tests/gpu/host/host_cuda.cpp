#include "gpu/host/host_cuda.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace host_cuda {
namespace {

constexpr size_t kStackBytes = 1 << 15;  // the address sanitizer clears its marks of a stack at every switch
constexpr unsigned kWarp = 32;

enum class State { ready, at_block_barrier, at_warp_barrier, ended };

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  State state = State::ready;
};

struct Block {
  std::span<Fiber> fibers;
  std::vector<uint64_t> lanes;
  ucontext_t scheduler{};
  unsigned now = 0;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr error;
  const void* scheduler_stack = nullptr;
  size_t scheduler_bytes = 0;
};

Block* block = nullptr;
std::vector<Fiber> all_fibers;  // from launch to launch: their stacks are large

// AddressSanitizer must know when the stack changes.
void leave([[maybe_unused]] void** kept, [[maybe_unused]] const void* stack, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(kept, stack, bytes);
#endif
}
void arrive([[maybe_unused]] void* kept, [[maybe_unused]] bool from_scheduler) {
#ifdef __SANITIZE_ADDRESS__
  if (from_scheduler)
    __sanitizer_finish_switch_fiber(kept, &block->scheduler_stack, &block->scheduler_bytes);
  else
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

void pause(State state) {
  Fiber& fiber = block->fibers[block->now];
  fiber.state = state;
  void* kept = nullptr;
  leave(state == State::ended ? nullptr : &kept, block->scheduler_stack, block->scheduler_bytes);
  swapcontext(&fiber.context, &block->scheduler);
  arrive(kept, true);
}

void enter() {
  arrive(nullptr, true);
  try {
    (*block->thread)();
  } catch (...) {
    block->error = std::current_exception();
  }
  pause(State::ended);
}

void go_on(unsigned index) {
  Fiber& fiber = block->fibers[index];
  block->now = index;
  threadIdx = {index, 0, 0};
  void* kept = nullptr;
  leave(&kept, fiber.stack.get(), kStackBytes);
  swapcontext(&block->scheduler, &fiber.context);
  arrive(kept, false);
}

// The numbers below `count` in the order of turns.
std::vector<unsigned> turns(unsigned count) {
  std::vector<unsigned> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(order == Order::descending ? count - 1 - i : i);
  if (order == Order::odd_first) std::ranges::stable_partition(all, [](unsigned i) { return i % 2 == 1; });
  return all;
}

// Lets the fibers [begin, end) go on if all of them wait at this kind of barrier.
bool release(unsigned begin, unsigned end, State barrier) {
  const std::span<Fiber> waiting(block->fibers.data() + begin, end - begin);
  if (!std::ranges::all_of(waiting, [&](const Fiber& fiber) { return fiber.state == barrier; })) return false;
  for (Fiber& fiber : waiting) fiber.state = State::ready;
  return true;
}

void run_block(unsigned threads) {
  for (Fiber& fiber : block->fibers) {
    fiber.state = State::ready;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, enter, 0);
  }
  const std::vector<unsigned> warps = turns((threads + kWarp - 1) / kWarp), lanes = turns(kWarp);
  const auto ended = [](const Fiber& fiber) { return fiber.state == State::ended; };
  while (!std::ranges::all_of(block->fibers, ended)) {
    for (const unsigned warp : warps) {
      const unsigned begin = warp * kWarp, end = std::min(begin + kWarp, threads);
      do {
        for (const unsigned lane : lanes)
          if (begin + lane < end && block->fibers[begin + lane].state == State::ready) go_on(begin + lane);
        if (block->error) std::rethrow_exception(block->error);
      } while (release(begin, end, State::at_warp_barrier));
    }
    if (!std::ranges::all_of(block->fibers, ended) && !release(0, threads, State::at_block_barrier))
      throw std::logic_error("threads of a block part at a barrier");
  }
}

}  // namespace

void block_barrier() { pause(State::at_block_barrier); }
void warp_barrier() { pause(State::at_warp_barrier); }
uint64_t& lane_value(unsigned lane) { return block->lanes[threadIdx.x / kWarp * kWarp + lane]; }

void run(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  Block fresh;
  if (all_fibers.size() < threads) all_fibers.resize(threads);
  fresh.fibers = std::span(all_fibers).first(threads);
  fresh.lanes.resize((threads + kWarp - 1) / kWarp * kWarp);
  fresh.thread = &thread;
  block = &fresh;
  gridDim = dim3(blocks);
  blockDim = dim3(threads);
  for (unsigned index = 0; index < blocks; ++index) {
    blockIdx = {order == Order::descending ? blocks - 1 - index : index, 0, 0};
    run_block(threads);
  }
  block = nullptr;
}

}  // namespace host_cuda
