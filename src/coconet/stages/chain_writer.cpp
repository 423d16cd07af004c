#include "coconet/stages/chain_writer.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "axonn/core/error.hpp"
#include "coconet/stages/chain_registers.hpp"

namespace axonn::coconet {
namespace {

uint64_t packed(const StageKey& key) {
  uint64_t word = 0;
  for (const int part :
       {static_cast<int>(key.op), static_cast<int>(key.type), static_cast<int>(key.wide), static_cast<int>(key.a),
        static_cast<int>(key.b), static_cast<int>(key.c), static_cast<int>(key.save), static_cast<int>(key.out)})
    word = word << 7 | static_cast<uint64_t>(part);
  return word;
}

class ChainWriter {
 public:
  ChainWriter(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items, bool wide)
      : items_(items), wide_(wide), registers_(nodes, items) {}

  std::vector<WrittenStage> write() {
    for (now_ = 0; now_ < static_cast<int>(items_.size()); ++now_) {
      const ChainItem& item = items_[static_cast<size_t>(now_)];
      if (item.computes())
        compute(item);
      else
        consume(item);
      registers_.forget_dead(now_);
    }
    stages_.push_back({{.op = StageOp::end, .wide = wide_}});
    return std::move(stages_);
  }

 private:
  const ChainNode& node(int n) const { return registers_.node(n); }
  ElementType widest() const { return wide_ ? ElementType::fp64 : ElementType::fp32; }

  // A free register among r1 to r3, after the value whose next use is farthest was spilled, where
  // necessary. Operands of this item stay in their registers if `keep_operands`; then `from` is
  // this item. 0: the value of r0 itself was spilled.
  int make_room(int from, bool keep_operands) {
    if (const int r = registers_.free_register(from)) return r;
    const int victim = registers_.farthest(now_, from, keep_operands);
    spill(victim);
    return victim;
  }

  void spill(int r) {
    const int value = registers_.held(r);
    if (registers_.is_readable(value)) return;
    stages_.push_back(
        {{.op = StageOp::spill, .type = widest(), .wide = wide_, .a = reg(r)}, 0, 0, 0, registers_.spill(value)});
    result_is_last_ = false;
  }

  void add(const WrittenStage& stage, int result) {
    stages_.push_back(stage);
    registers_.set_result(result, stage.key.save);
    result_is_last_ = true;
  }

  // r0 to another register, r0 stays.
  void keep_in_register() {
    const int r = make_room(now_, true);
    AXONN_ASSERT(r > 0, "no register for an operand");
    add({{.op = StageOp::copy, .type = widest(), .wide = wide_, .a = Source::r0, .save = static_cast<uint8_t>(r)}},
        registers_.held(0));
    result_is_last_ = false;
  }

  void bring_to_r0(int value) {
    if (registers_.held(0) == value) return;
    const int r = registers_.must_save(now_) ? make_room(now_, true) : 0;
    const Source from = registers_.source_of(value, now_);
    const bool typed = from == Source::number || from >= Source::fp32;
    add({{.op = StageOp::copy,
          .type = typed ? node(value).type : widest(),
          .wide = wide_,
          .a = from,
          .save = static_cast<uint8_t>(r)},
         registers_.field_of(value, from)},
        value);
  }

  void keep_in_register(int value) {
    if (registers_.other_register_of(value) > 0) return;
    bring_to_r0(value);
    keep_in_register();
  }

  void compute(const ChainItem& item) {
    const ChainNode& made = node(item.node);
    if (made.op == StageOp::copy) {
      bring_to_r0(made.operands[0]);
      registers_.set_result(item.node, 0);
      return;
    }
    if (try_orders(item)) return;
    if (const int value = best_for_r0(made); value >= 0) {
      bring_to_r0(value);
      if (try_orders(item)) return;
    }
    for (size_t i = 1; i < 3; ++i)
      if (made.operands[i] >= 0) keep_in_register(made.operands[i]);
    bring_to_r0(made.operands[0]);
    // An operand that is also in r0 is read from its other register.
    std::array<Source, 3> sources{Source::r0, Source::none, Source::none};
    for (size_t i = 1; i < 3; ++i)
      if (made.operands[i] >= 0) sources[i] = reg(registers_.other_register_of(made.operands[i]));
    AXONN_ASSERT(try_stage(item, made.operands, sources), "no stage for item ", now_);
  }

  // The operand to bring to r0 where no stage fits: one in memory, or else in another register.
  int best_for_r0(const ChainNode& made) const {
    int best = -1;
    for (const int value : made.operands) {
      if (value < 0 || value == registers_.held(0) || registers_.is_number(value)) continue;
      if (best < 0 || registers_.register_of(value) < 0) best = value;
    }
    return best;
  }

  bool try_orders(const ChainItem& item) {
    std::array<int, 3> operands = node(item.node).operands;
    const auto source_of = [&](int value) { return registers_.source_of(value, now_); };
    const auto try_these = [&] {
      return try_stage(item, operands, {source_of(operands[0]), source_of(operands[1]), source_of(operands[2])});
    };
    if (try_these()) return true;
    if (!is_commutative(item.op)) return false;
    std::swap(operands[0], operands[1]);
    return try_these();
  }

  // Adds the stage for this item if there is one for such sources, with or without a joined save.
  bool try_stage(const ChainItem& item, const std::array<int, 3>& operands, const std::array<Source, 3>& sources) {
    WrittenStage stage{{.op = item.op,
                        .type = node(item.node).operand_type,
                        .wide = wide_,
                        .a = sources[0],
                        .b = sources[1],
                        .c = sources[2]}};
    if (find_stage(stage.key) < 0) return false;
    if (registers_.must_save(now_ + 1)) {
      stage.key.save = 1;
      const bool joined = find_stage(stage.key) >= 0;
      stage.key.save = 0;
      const int r = make_room(joined ? now_ + 1 : now_, !joined);
      if (joined)
        stage.key.save = static_cast<uint8_t>(r);
      else if (r > 0)
        add({{.op = StageOp::copy, .type = widest(), .wide = wide_, .a = Source::r0, .save = static_cast<uint8_t>(r)}},
            registers_.held(0));
    }
    stage.a = sources[0] == Source::none ? 0 : registers_.field_of(operands[0], sources[0]);
    stage.b = sources[1] == Source::none ? 0 : registers_.field_of(operands[1], sources[1]);
    stage.c = sources[2] == Source::none ? 0 : registers_.field_of(operands[2], sources[2]);
    stage.out = item.op == StageOp::mask ? item.index : 0;
    add(stage, item.node);
    return true;
  }

  void consume(const ChainItem& item) {
    bring_to_r0(item.node);
    if (item.op == StageOp::store && result_is_last_ && join_store(item)) return;
    const bool fp64 = node(item.node).type == ElementType::fp64;
    stages_.push_back({{.op = item.op,
                        .type = fp64 ? ElementType::fp64 : ElementType::fp32,
                        .wide = wide_,
                        .a = Source::r0,
                        .out = item.out},
                       0,
                       0,
                       0,
                       item.index});
    result_is_last_ = false;
  }

  bool join_store(const ChainItem& item) {
    StageKey key = stages_.back().key;
    if (key.op == StageOp::mask) return false;
    key.out = item.out;
    if (find_stage(key) < 0) return false;
    stages_.back().key = key;
    stages_.back().out = item.index;
    result_is_last_ = false;
    return true;
  }

  const std::vector<ChainItem>& items_;
  bool wide_;
  ChainRegisters registers_;
  bool result_is_last_ = false;  // the last stage computed r0
  int now_ = 0;
  std::vector<WrittenStage> stages_;
};

}  // namespace

std::vector<WrittenStage> write_chain(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items,
                                      bool wide) {
  return ChainWriter(nodes, items, wide).write();
}

int find_stage(const StageKey& key) {
  static const std::unordered_map<uint64_t, int> places = [] {
    std::unordered_map<uint64_t, int> made;
    for (size_t i = 0; i < kStages.count; ++i) made.emplace(packed(kStages.keys[i]), static_cast<int>(i));
    return made;
  }();
  const auto found = places.find(packed(key));
  return found == places.end() ? -1 : found->second;
}

}  // namespace axonn::coconet
