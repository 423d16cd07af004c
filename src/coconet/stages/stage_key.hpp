#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "axonn/coconet/stages/pointwise_kernel.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"

// The stages that exist, for every instruction set: a key per function.
namespace axonn::coconet {

enum class StageOp : uint8_t {
  copy,
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  power,
  less,
  less_equal,
  equal,
  not_equal,
  negate,
  absolute,
  square_root,
  exponential,
  logarithm,
  tanh,
  relu,
  gelu,
  gelu_tanh,
  sigmoid,
  fast_exponential,
  is_finite,
  fma,
  select,
  widen,       // fp32 to fp64
  narrow,      // fp64 to fp32
  round_bf16,  // fp32 that holds such a number
  round_fp16,
  mask,
  spill,    // a register to the scratch memory
  store,    // r0 to a stream
  publish,  // r0, the same for all elements, to the numbers
  reduce_sum,
  reduce_maximum,
  reduce_minimum,
  reduce_squares,  // the sum of the squares of fp32 numbers
  end
};

// The source of an operand: one of four registers, the numbers of the call, a spilled value, or a
// stream with elements of a type.
enum class Source : uint8_t { none, r0, r1, r2, r3, number, scratch, fp32, bf16, fp16, fp64 };

// A stage computes r0 = op(a, b, c). Before that it may save the old r0 in another register, and
// after that it may store the new one to a stream. bf16, fp16 and boolean are fp32 in registers.
struct StageKey {
  StageOp op = StageOp::copy;
  ElementType type = ElementType::fp32;  // type of the operands: fp32 or fp64
  bool wide = false;                     // a chain with fp64 values has half as many elements per round
  Source a = Source::none;
  Source b = Source::none;
  Source c = Source::none;
  uint8_t save = 0;           // register for the old r0, or 0
  Source out = Source::none;  // type of the stream that is stored

  friend constexpr bool operator==(const StageKey&, const StageKey&) = default;
};

constexpr Source reg(int number) { return static_cast<Source>(static_cast<int>(Source::r0) + number); }

constexpr bool is_commutative(StageOp op) {
  return op == StageOp::add || op == StageOp::multiply || op == StageOp::minimum || op == StageOp::maximum ||
         op == StageOp::equal || op == StageOp::not_equal || op == StageOp::fma;
}

struct StageList {
  std::array<StageKey, 2048> keys{};
  size_t count = 0;

  constexpr void add(StageKey key) { keys[count++] = key; }
  // The plain form, the forms that save r0, and those that store the result.
  constexpr void add_joined(StageKey key) {
    for (uint8_t save = 0; save < 4; ++save) {
      key.save = save;
      add(key);
    }
    key.save = 0;
    if (key.type == ElementType::fp64) return;
    for (const Source out : {Source::fp32, Source::bf16}) {
      key.out = out;
      add(key);
    }
  }
};

namespace listing {

constexpr void list_moves(StageList& list, bool wide) {
  const ElementType widest = wide ? ElementType::fp64 : ElementType::fp32;
  const auto copy = [&](Source from, ElementType type) {
    for (uint8_t save = 0; save < 4; ++save) list.add({StageOp::copy, type, wide, from, {}, {}, save});
  };
  for (const Source from : {Source::r1, Source::r2, Source::r3, Source::scratch}) copy(from, widest);
  for (const Source from : {Source::number, Source::fp32, Source::bf16, Source::fp16}) copy(from, ElementType::fp32);
  for (uint8_t save = 1; save < 4; ++save) list.add({StageOp::copy, widest, wide, Source::r0, {}, {}, save});
  for (int r = 0; r < 4; ++r) list.add({StageOp::spill, widest, wide, reg(r)});
  for (const Source out : {Source::fp32, Source::bf16, Source::fp16})
    list.add({StageOp::store, ElementType::fp32, wide, Source::r0, {}, {}, 0, out});
  if (wide) {
    copy(Source::number, ElementType::fp64);
    copy(Source::fp64, ElementType::fp64);
    list.add({StageOp::store, ElementType::fp64, wide, Source::r0, {}, {}, 0, Source::fp64});
    list.add({StageOp::widen, ElementType::fp32, wide, Source::r0});
    list.add({StageOp::narrow, ElementType::fp64, wide, Source::r0});
  }
  list.add({StageOp::round_bf16, ElementType::fp32, wide, Source::r0});
  list.add({StageOp::round_fp16, ElementType::fp32, wide, Source::r0});
  for (uint8_t save = 0; save < 4; ++save)
    list.add({StageOp::mask, ElementType::fp32, wide, Source::none, {}, {}, save});
  list.add({StageOp::reduce_squares, ElementType::fp32, wide, Source::r0});
  list.add({StageOp::end, ElementType::fp32, wide});
}

// The forms that every operation has. The chain can bring any operands into one of them.
constexpr void list_plain(StageList& list, ElementType type, bool wide) {
  for (StageOp op = StageOp::add; op <= StageOp::not_equal; op = static_cast<StageOp>(static_cast<int>(op) + 1)) {
    for (int r = 1; r < 4; ++r) {
      list.add({op, type, wide, Source::r0, reg(r)});
      if (!is_commutative(op)) list.add({op, type, wide, reg(r), Source::r0});
    }
    list.add({op, type, wide, Source::r0, Source::number});
    if (!is_commutative(op)) list.add({op, type, wide, Source::number, Source::r0});
  }
  for (StageOp op = StageOp::negate; op <= StageOp::is_finite; op = static_cast<StageOp>(static_cast<int>(op) + 1))
    list.add({op, type, wide, Source::r0});
  for (const StageOp op : {StageOp::fma, StageOp::select})
    for (int r = 1; r < 4; ++r)
      for (int s = 1; s < 4; ++s) list.add({op, type, wide, Source::r0, reg(r), reg(s)});
  for (int r = 1; r < 4; ++r) {
    list.add({StageOp::select, type, wide, Source::r0, reg(r), Source::number});
    list.add({StageOp::select, type, wide, Source::r0, Source::number, reg(r)});
  }
  list.add({StageOp::select, type, wide, Source::r0, Source::number, Source::number});
  for (const StageOp op : {StageOp::publish, StageOp::reduce_sum, StageOp::reduce_maximum, StageOp::reduce_minimum})
    list.add({op, type, wide, Source::r0});
}

constexpr bool is_plain(const StageKey& key) {
  const bool second = key.b == Source::r1 || key.b == Source::r2 || key.b == Source::r3 || key.b == Source::number;
  const bool first = key.a == Source::r1 || key.a == Source::r2 || key.a == Source::r3 || key.a == Source::number;
  return (key.a == Source::r0 && second) || (!is_commutative(key.op) && first && key.b == Source::r0);
}

// Plain forms were listed before; here they are joined with a save or a store.
constexpr void list_arithmetic(StageList& list, StageOp op, ElementType type, std::span<const Source> memory) {
  const bool wide = type == ElementType::fp64;
  const auto add = [&](Source a, Source b) {
    const StageKey key{op, type, wide, a, b};
    const size_t first = list.count;
    list.add_joined(key);
    if (is_plain(key)) list.keys[first] = list.keys[--list.count];
  };
  const auto both = [&](Source a, Source b) {
    add(a, b);
    if (!is_commutative(op)) add(b, a);
  };
  for (int r = 1; r < 4; ++r) {
    both(Source::r0, reg(r));
    both(reg(r), Source::number);
    if (op == StageOp::multiply) add(reg(r), reg(r));
  }
  if (op == StageOp::multiply) add(Source::r0, Source::r0);
  both(Source::r0, Source::number);
  for (const Source from : memory) {
    both(Source::r0, from);
    both(from, Source::number);
  }
}

constexpr void list_fma(StageList& list, ElementType type, std::span<const Source> memory) {
  const bool wide = type == ElementType::fp64;
  const auto add = [&](Source a, Source b, Source c) { list.add_joined({StageOp::fma, type, wide, a, b, c}); };
  const auto add_factor = [&](Source b) {
    add(Source::number, b, Source::r0);
    add(Source::number, b, Source::number);
  };
  for (int r = 1; r < 4; ++r) {
    add_factor(reg(r));
    add(Source::number, Source::r0, reg(r));
    for (int s = r; s < 4; ++s) add(reg(r), reg(s), Source::r0);
  }
  add(Source::number, Source::r0, Source::number);
  for (const Source from : memory) {
    add_factor(from);
    add(Source::number, Source::r0, from);
  }
}

constexpr StageList list_stages() {
  constexpr std::array<Source, 3> narrow{Source::fp32, Source::bf16, Source::fp16};
  constexpr std::array<Source, 1> wide{Source::fp64};
  StageList list;
  list_moves(list, false);
  list_moves(list, true);
  list_plain(list, ElementType::fp32, false);
  list_plain(list, ElementType::fp32, true);
  list_plain(list, ElementType::fp64, true);
  for (const StageOp op : {StageOp::add, StageOp::subtract, StageOp::multiply, StageOp::divide}) {
    list_arithmetic(list, op, ElementType::fp32, narrow);
    list_arithmetic(list, op, ElementType::fp64, wide);
  }
  list_fma(list, ElementType::fp32, narrow);
  list_fma(list, ElementType::fp64, wide);
  return list;
}

}  // namespace listing

inline constexpr StageList kStages = listing::list_stages();

}  // namespace axonn::coconet
