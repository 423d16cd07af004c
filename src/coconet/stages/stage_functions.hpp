#pragma once

// All stages of kStages for one instruction set. To be included after its vectors.
#include "coconet/stages/stage_math.hpp"
#include "coconet/stages/stage_philox.hpp"

namespace axonn::coconet {
namespace {

// A value of the elements of a round. In wide chains fp32 uses the first part only.
struct Value {
  F part[2];
};

template <bool wide>
constexpr int kElements = wide ? kFloats : 2 * kFloats;

AXONN_INLINE D fp64_part(const Value& value, int part) { return bits<D>(value.part[part]); }

template <StageOp op, typename V>
AXONN_INLINE V computed(V a, V b) {
  if constexpr (op == StageOp::add) return a + b;
  if constexpr (op == StageOp::subtract) return a - b;
  if constexpr (op == StageOp::multiply) return a * b;
  if constexpr (op == StageOp::divide) return a / b;
  if constexpr (op == StageOp::minimum) return minimum_of(a, b);
  if constexpr (op == StageOp::maximum) return maximum_of(a, b);
  if constexpr (op == StageOp::relu) return maximum_of(a, V{});
  if constexpr (op == StageOp::negate) return -a;
  if constexpr (op == StageOp::absolute) return absolute_of(a);
  if constexpr (op == StageOp::square_root) return square_root_of(a);
  if constexpr (op == StageOp::sigmoid) return sigmoid_of(a);
  if constexpr (op == StageOp::fast_exponential) return fast_exp_of(a);
}

template <StageOp op>
AXONN_INLINE D by_polynomials(D a, D b) {
  if constexpr (op == StageOp::power) return pow_of(a, b);
  if constexpr (op == StageOp::exponential) return exp_of(a, D{});
  if constexpr (op == StageOp::logarithm) return log_of(a);
  if constexpr (op == StageOp::tanh) return tanh_of(a);
  if constexpr (op == StageOp::gelu) return gelu_of(a);
  if constexpr (op == StageOp::gelu_tanh) return gelu_tanh_of(a);
}
template <StageOp op>
AXONN_INLINE F by_polynomials(F a, F b) {
  return narrow(by_polynomials<op>(widen_low(a), widen_low(b)), by_polynomials<op>(widen_high(a), widen_high(b)));
}

template <StageOp op, typename V>
AXONN_INLINE auto compared(V a, V b) {
  if constexpr (op == StageOp::less) return a < b;
  if constexpr (op == StageOp::less_equal) return a <= b;
  if constexpr (op == StageOp::equal) return a == b;
  if constexpr (op == StageOp::not_equal) return a != b;
  if constexpr (op == StageOp::is_finite) return absolute_of(a) < (V{} + static_cast<float>(kInfinity));
}

constexpr bool is_polynomial(StageOp op) {
  return op == StageOp::power || (op >= StageOp::exponential && op <= StageOp::tanh) || op == StageOp::gelu ||
         op == StageOp::gelu_tanh;
}
constexpr bool is_comparison(StageOp op) {
  return (op >= StageOp::less && op <= StageOp::not_equal) || op == StageOp::is_finite;
}

// r0 of a stage from its operands. Parts that a type does not use are computed and dropped.
template <StageKey key>
AXONN_INLINE Value result_of(const Value& a, const Value& b, const Value& c) {
  constexpr bool fp64 = key.type == ElementType::fp64;
  Value result{};
  if constexpr (key.op == StageOp::copy) {
    return a;
  } else if constexpr (key.op == StageOp::widen) {
    return {bits<F>(widen_low(a.part[0])), bits<F>(widen_high(a.part[0]))};
  } else if constexpr (key.op == StageOp::narrow) {
    result.part[0] = narrow(fp64_part(a, 0), fp64_part(a, 1));
  } else if constexpr (fp64 && is_comparison(key.op)) {
    const D one = all(1.0);
    const L low = compared<key.op>(fp64_part(a, 0), fp64_part(b, 0)),
            high = compared<key.op>(fp64_part(a, 1), fp64_part(b, 1));
    result.part[0] = narrow(bits<D>(low & bits<L>(one)), bits<D>(high & bits<L>(one)));
  } else if constexpr (fp64 && key.op == StageOp::select) {
    result.part[0] = bits<F>(widen_low(a.part[0]) != 0.0 ? fp64_part(b, 0) : fp64_part(c, 0));
    result.part[1] = bits<F>(widen_high(a.part[0]) != 0.0 ? fp64_part(b, 1) : fp64_part(c, 1));
  } else if constexpr (fp64) {
    for (int p = 0; p < 2; ++p) {
      const D x = fp64_part(a, p), y = fp64_part(b, p), z = fp64_part(c, p);
      if constexpr (key.op == StageOp::fma)
        result.part[p] = bits<F>(fma_of(x, y, z));
      else if constexpr (is_polynomial(key.op))
        result.part[p] = bits<F>(by_polynomials<key.op>(x, y));
      else
        result.part[p] = bits<F>(computed<key.op>(x, y));
    }
  } else {
    for (int p = 0; p < (key.wide ? 1 : 2); ++p) {
      const F x = a.part[p], y = b.part[p], z = c.part[p];
      if constexpr (key.op == StageOp::fma)
        result.part[p] = fma_of(x, y, z);
      else if constexpr (key.op == StageOp::select)
        result.part[p] = x != 0.0f ? y : z;
      else if constexpr (key.op == StageOp::round_bf16)
        result.part[p] = round_bf16(x);
      else if constexpr (key.op == StageOp::round_fp16)
        result.part[p] = round_fp16(x);
      else if constexpr (is_comparison(key.op))
        result.part[p] = bits<F>(bits<U>(compared<key.op>(x, y)) & bits<U>(all(1.0f)));
      else if constexpr (is_polynomial(key.op))
        result.part[p] = by_polynomials<key.op>(x, y);
      else
        result.part[p] = computed<key.op>(x, y);
    }
  }
  return result;
}

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
