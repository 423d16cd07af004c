#pragma once

#include <cstddef>
#include <cstdint>

#include "axonn/coconet/stages/pointwise_kernel.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"

// The data that stages read and write at run time. Sources for several instruction sets include
// this header, so it has no functions.
namespace axonn::coconet {

// A stage's real type differs per instruction set: its arguments are vectors.
using StageFunction = void (*)();

// One stage of a chain: `a`, `b`, `c` and `out` say which number, spilled value or stream an
// operand is, where the key says that it is one.
struct Stage {
  StageFunction function = nullptr;
  int32_t a = 0;
  int32_t b = 0;
  int32_t c = 0;
  int32_t out = 0;
};

inline constexpr int kLanes = 32;  // sums per reduction, each of every 32nd element
inline constexpr int kMostElementsPerRound = 32;
inline constexpr int kMostRoundBytes = 128;  // a value of one round

struct StageRun {
  std::byte* streams[PointwiseKernel::kMostStreams];
  const Stage* chain;  // its first stage
  int64_t step;        // elements per round
  int64_t stop;        // the end of the rounds of this turn
  double numbers[PointwiseKernel::kMostNumbers];
  float narrow_numbers[PointwiseKernel::kMostNumbers];  // the same, in fp32
  MaskRun masks[PointwiseKernel::kMostMasks];
  int64_t base;  // element of the call at place 0 of the streams
  int32_t rest;  // elements of this round
  alignas(64) double lanes[PointwiseKernel::kMostReductions][kLanes];
  alignas(64) std::byte scratch[StageChain::kMostSpilled][kMostRoundBytes];
};

// All stages of one instruction set, in the order of kStages. nullptr: this build has none.
struct StageTable {
  const StageFunction* functions = nullptr;
  int elements_per_round = 0;  // half of them in a wide chain
  // Runs the chain for elements [begin, end), a whole number of rounds.
  void (*drive)(const Stage* chain, StageRun* run, int64_t begin, int64_t end, int64_t step) = nullptr;
};

StageTable plain_stages();
StageTable avx2_stages();
StageTable avx512_stages();

}  // namespace axonn::coconet
