#pragma once

// All stages of kStages for one instruction set. To be included after its vectors.
#include "coconet/stages/stage_memory.hpp"
#include "coconet/stages/stage_philox.hpp"

namespace axonn::coconet {
namespace {

template <bool wide>
AXONN_INLINE Value draw_mask(const MaskRun& mask, int64_t place) {
  constexpr int at_once = kDoubles * 4, most = (kElements<wide> + at_once - 1) / at_once + 1;
  uint32_t words[most * at_once];
  const uint64_t first = mask.first + static_cast<uint64_t>(place);
  const int skipped = static_cast<int>(first % 4);
  UL lane{};
  for (int i = 0; i < kDoubles; ++i) lane[i] = static_cast<uint64_t>(i);
  for (int group = 0; group * at_once < kElements<wide> + skipped; ++group) {
    const PhiloxBlocks blocks =
        philox_blocks(lane + (first / 4 + static_cast<uint64_t>(group * kDoubles)), mask.seed, mask.stream);
    uint64_t pairs[2 * kDoubles];
    for (int i = 0; i < kDoubles; ++i) {
      pairs[2 * i] = blocks.low[i];
      pairs[2 * i + 1] = blocks.high[i];
    }
    std::memcpy(words + group * at_once, pairs, sizeof(pairs));
  }
  Value value{};
  const U drops = U{} - static_cast<uint32_t>(mask.drops);
  for (int p = 0; p < (wide ? 1 : 2); ++p) {
    const U word = load_from<U>(words + skipped + p * kFloats);
    const U dropped = bits<U>(word <= mask.last_dropped) & drops;
    value.part[p] = bits<F>(bits<U>(all(mask.kept)) & ~dropped);
  }
  return value;
}

template <StageKey key>
AXONN_INLINE D accumulated(D old, D value) {
  if constexpr (key.op == StageOp::reduce_sum) return old + value;
  if constexpr (key.op == StageOp::reduce_squares) return old + value * value;
  if constexpr (key.op == StageOp::reduce_maximum) return maximum_of(old, value);
  if constexpr (key.op == StageOp::reduce_minimum) return minimum_of(old, value);
}

// Adds a value to kDoubles lanes; in the last round, only what belongs to elements of the call.
template <StageKey key, bool is_rest>
AXONN_INLINE void accumulate(const StageRun& run, double* lanes, int first, D value) {
  const D old = load_from<D>(lanes + first);
  D sum = accumulated<key>(old, value);
  if constexpr (is_rest) {
    L lane{};
    for (int i = 0; i < kDoubles; ++i) lane[i] = first + i;
    sum = lane < int64_t{run.rest} ? sum : old;
  }
  store_to(lanes + first, sum);
}

template <StageKey key, bool is_rest>
AXONN_INLINE void reduce(StageRun& run, int32_t index, int64_t i, const Value& value) {
  double* lanes = run.lanes[index] + ((run.base + i) & (kLanes - 1));
  if constexpr (key.type == ElementType::fp64) {
    for (int p = 0; p < 2; ++p) accumulate<key, is_rest>(run, lanes, p * kDoubles, fp64_part(value, p));
  } else {
    for (int p = 0; p < (key.wide ? 1 : 2); ++p) {
      accumulate<key, is_rest>(run, lanes, 2 * p * kDoubles, widen_low(value.part[p]));
      accumulate<key, is_rest>(run, lanes, (2 * p + 1) * kDoubles, widen_high(value.part[p]));
    }
  }
}

template <StageKey key>
AXONN_INLINE void publish(StageRun& run, int32_t number, const Value& value) {
  run.numbers[number] = key.type == ElementType::fp64 ? fp64_part(value, 0)[0] : double{value.part[0][0]};
  run.narrow_numbers[number] = key.type == ElementType::fp64 ? 0 : value.part[0][0];
}

template <StageKey key>
AXONN_INLINE void execute(const Stage& stage, StageRun& run, int64_t i, Value* r) {
  const Value a = read<key, key.a>(run, stage.a, i, r), b = read<key, key.b>(run, stage.b, i, r),
              c = read<key, key.c>(run, stage.c, i, r);
  if constexpr (key.save > 0) r[key.save] = r[0];
  if constexpr (key.op == StageOp::spill)
    spill(run, stage.out, a);
  else if constexpr (key.op == StageOp::publish)
    publish<key>(run, stage.out, a);
  else if constexpr (key.op >= StageOp::reduce_sum && key.op <= StageOp::reduce_squares)
    run.rest < kElements<key.wide> ? reduce<key, true>(run, stage.out, i, a) : reduce<key, false>(run, stage.out, i, a);
  else if constexpr (key.op == StageOp::mask)
    r[0] = draw_mask<key.wide>(run.masks[stage.out], run.base + i);
  else if constexpr (key.op != StageOp::store)
    r[0] = result_of<key>(a, b, c);
  if constexpr (key.out != Source::none) write<key>(run, stage.out, i, r[0]);
}

using Jump = void (*)(const Stage*, StageRun*, int64_t, F, F, F, F, F, F, F, F);

template <size_t number>
void stage(const Stage* at, StageRun* run, int64_t i, F a, F b, F c, F d, F e, F f, F g, F h) {
  constexpr StageKey key = kStages.keys[number];
  if constexpr (key.op == StageOp::end) {
    i += run->step;
    if (i >= run->stop) return;
    at = run->chain;
    return reinterpret_cast<Jump>(at->function)(at, run, i, a, b, c, d, e, f, g, h);
  } else {
    Value r[4] = {{{a, b}}, {{c, d}}, {{e, f}}, {{g, h}}};
    execute<key>(*at, *run, i, r);
    ++at;
    return reinterpret_cast<Jump>(at->function)(at, run, i, r[0].part[0], r[0].part[1], r[1].part[0], r[1].part[1],
                                                r[2].part[0], r[2].part[1], r[3].part[0], r[3].part[1]);
  }
}

// Some rounds at a time, so that the stack has a bound also where a compiler makes the jumps calls.
void drive(const Stage* chain, StageRun* run, int64_t begin, int64_t end, int64_t step) {
  constexpr int64_t kRounds = 8;
  const F zero{};
  run->chain = chain;
  run->step = step;
  for (; begin < end; begin = run->stop) {
    run->stop = begin + kRounds * step < end ? begin + kRounds * step : end;
    reinterpret_cast<Jump>(chain->function)(chain, run, begin, zero, zero, zero, zero, zero, zero, zero, zero);
  }
  leave_vectors();
}

template <size_t... number>
const StageFunction* all_stages(std::index_sequence<number...>) {
  static const StageFunction functions[] = {reinterpret_cast<StageFunction>(&stage<number>)...};
  return functions;
}

StageTable table_of_stages() { return {all_stages(std::make_index_sequence<kStages.count>()), 2 * kFloats, drive}; }

}  // namespace
}  // namespace axonn::coconet
