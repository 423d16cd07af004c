#pragma once

// How stages read their operands and write their results. To be included after an instruction set's
// vectors.
#include "coconet/stages/stage_operations.hpp"

namespace axonn::coconet {
namespace {

// Vector by vector: GCC copies a struct in halves of vectors, and a vector that is read from two
// halves just written waits for both.
AXONN_INLINE void spill(StageRun& run, int32_t place, const Value& value) {
  for (int p = 0; p < 2; ++p) store_to(run.scratch[place] + p * sizeof(F), value.part[p]);
}
AXONN_INLINE Value reload(const StageRun& run, int32_t place) {
  return {load_from<F>(run.scratch[place]), load_from<F>(run.scratch[place] + sizeof(F))};
}

// Beyond the caches, the processor's own prefetch reaches about 0.8 of what this one reaches.
template <Source from>
AXONN_INLINE void prefetch(const std::byte* address) {
  constexpr int64_t kAhead = 2048;
  if constexpr (from >= Source::fp32) __builtin_prefetch(address + kAhead);
}

template <StageKey key, Source from>
AXONN_INLINE Value read(const StageRun& run, int32_t operand, int64_t i, const Value* r) {
  constexpr int parts = key.wide ? 1 : 2;
  Value value{};
  if constexpr (from == Source::r0) return r[0];
  if constexpr (from == Source::r1) return r[1];
  if constexpr (from == Source::r2) return r[2];
  if constexpr (from == Source::r3) return r[3];
  if constexpr (from == Source::number && key.type == ElementType::fp64)
    value.part[0] = value.part[1] = bits<F>(all(run.numbers[operand]));
  if constexpr (from == Source::number && key.type == ElementType::fp32)
    value.part[0] = value.part[1] = all(run.narrow_numbers[operand]);
  if constexpr (from == Source::scratch) return reload(run, operand);
  const std::byte* memory = from >= Source::fp32 ? run.streams[operand] : nullptr;
  constexpr int64_t bytes = from == Source::fp64 ? 8 : from == Source::fp32 ? 4 : 2;
  for (int64_t line = 0; line < kElements<key.wide> * bytes; line += 64) prefetch<from>(memory + i * bytes + line);
  for (int p = 0; p < parts; ++p) {
    const int64_t at = i + p * kFloats;
    if constexpr (from == Source::fp32) value.part[p] = load_from<F>(memory + at * 4);
    if constexpr (from == Source::bf16) value.part[p] = load_bf16(memory + at * 2);
    if constexpr (from == Source::fp16) value.part[p] = load_fp16(memory + at * 2);
  }
  if constexpr (from == Source::fp64)
    for (int p = 0; p < 2; ++p) value.part[p] = load_from<F>(memory + (i + p * kDoubles) * 8);
  return value;
}

template <StageKey key>
AXONN_INLINE void write(StageRun& run, int32_t stream, int64_t i, const Value& value) {
  std::byte* memory = run.streams[stream];
  for (int p = 0; p < (key.wide ? 1 : 2); ++p) {
    const int64_t at = i + p * kFloats;
    if constexpr (key.out == Source::fp32) store_to(memory + at * 4, value.part[p]);
    if constexpr (key.out == Source::bf16) store_bf16(memory + at * 2, value.part[p]);
    if constexpr (key.out == Source::fp16) store_fp16(memory + at * 2, value.part[p]);
  }
  if constexpr (key.out == Source::fp64)
    for (int p = 0; p < 2; ++p) store_to(memory + (i + p * kDoubles) * 8, value.part[p]);
}

}  // namespace
}  // namespace axonn::coconet
