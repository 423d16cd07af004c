#include "coconet/stages/chain_writer.hpp"

#include <algorithm>
#include <unordered_map>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

constexpr int kNever = 1 << 30;

uint64_t packed(const StageKey& key) {
  uint64_t word = 0;
  for (const int part :
       {static_cast<int>(key.op), static_cast<int>(key.type), static_cast<int>(key.wide), static_cast<int>(key.a),
        static_cast<int>(key.b), static_cast<int>(key.c), static_cast<int>(key.save), static_cast<int>(key.out)})
    word = word << 7 | static_cast<uint64_t>(part);
  return word;
}

// Registers 1 to 3 hold values that are needed later; register 0 has the last result, and is an
// operand of most stages. A loaded value or a number can be read again instead of being kept.
class ChainWriter {
 public:
  ChainWriter(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items, bool wide)
      : nodes_(nodes), items_(items), wide_(wide), uses_(nodes.size()), slot_(nodes.size(), -1) {
    computes_numbers_ = !items.empty() && node(items.front().node).is_number;
    for (int p = 0; p < static_cast<int>(items.size()); ++p) {
      const ChainItem& item = items[static_cast<size_t>(p)];
      if (!item.computes()) {
        uses_[static_cast<size_t>(item.node)].push_back(p);
        continue;
      }
      for (const int operand : node(item.node).operands)
        if (operand >= 0) uses_[static_cast<size_t>(operand)].push_back(p);
    }
  }

  std::vector<WrittenStage> write() {
    for (now_ = 0; now_ < static_cast<int>(items_.size()); ++now_) {
      const ChainItem& item = items_[static_cast<size_t>(now_)];
      if (item.computes())
        compute(item);
      else
        consume(item);
      forget_dead();
    }
    stages_.push_back({{.op = StageOp::end, .wide = wide_}});
    return std::move(stages_);
  }

 private:
  const ChainNode& node(int n) const { return nodes_[static_cast<size_t>(n)]; }

  // The first use of a value at item `from` or later.
  int next_use(int value, int from) const {
    const std::vector<int>& uses = uses_[static_cast<size_t>(value)];
    const auto found = std::ranges::lower_bound(uses, from);
    return found == uses.end() ? kNever : *found;
  }
  bool is_number(int value) const {
    return node(value).kind == ChainNode::Kind::number || (node(value).is_number && !computes_numbers_);
  }
  int register_of(int value) const {
    for (int r = 0; r < 4; ++r)
      if (held_[r] == value) return r;
    return -1;
  }
  bool is_readable(int value) const {
    return is_number(value) || node(value).kind == ChainNode::Kind::load || slot_[static_cast<size_t>(value)] >= 0;
  }
  Source source_of(int value) const {
    if (value < 0) return Source::none;
    if (const int r = register_of(value); r >= 0) return reg(r);
    if (is_number(value)) return Source::number;
    if (node(value).kind == ChainNode::Kind::load) return node(value).memory;
    AXONN_ASSERT(slot_[static_cast<size_t>(value)] >= 0, "value ", value, " is nowhere at item ", now_);
    return Source::scratch;
  }
  // What a stage's operand field says for such a source.
  int field_of(int value, Source source) const {
    if (source == Source::scratch) return slot_[static_cast<size_t>(value)];
    return source >= Source::number ? node(value).index : 0;
  }

  // ---- Registers ----

  // Whether writing r0 would lose its value, though item `from` or a later one uses it.
  bool must_save(int from) const {
    const int value = held_[0];
    if (value < 0 || next_use(value, from) == kNever || is_readable(value)) return false;
    return std::none_of(held_ + 1, held_ + 4, [&](int other) { return other == value; });
  }
  bool is_operand(int value) const {
    const ChainItem& item = items_[static_cast<size_t>(now_)];
    if (!item.computes()) return value == item.node;
    return std::ranges::count(node(item.node).operands, value) > 0;
  }
  // A register among r1 to r3 without a value that item `from` or a later one uses; 0: none.
  int free_register(int from) const {
    for (int r = 1; r < 4; ++r)
      if (held_[r] < 0 || next_use(held_[r], from) == kNever) return r;
    return 0;
  }
  // The same, after the value whose next use is farthest was spilled, where necessary. Operands of
  // this item stay in their registers if `keep_operands`; then `from` is this item. 0: the value of
  // r0 itself was spilled.
  int make_room(int from, bool keep_operands) {
    if (const int r = free_register(from)) return r;
    int victim = held_[0] >= 0 ? 0 : -1, farthest = victim == 0 ? next_use(held_[0], now_ + 1) : -1;
    if (keep_operands && victim == 0 && is_operand(held_[0])) farthest = now_;
    for (int r = 1; r < 4; ++r) {
      const int next = next_use(held_[r], from);
      if (next > farthest) {
        victim = r;
        farthest = next;
      }
    }
    spill(victim);
    return victim;
  }
  void spill(int r) {
    const int value = held_[r];
    if (is_readable(value)) return;
    int slot = 0;
    while (std::ranges::count(slot_, slot) > 0) ++slot;
    AXONN_CHECK(slot < StageChain::kMostSpilled, "coconet.stage_chain", "more than ", StageChain::kMostSpilled,
                " values of this kernel must wait outside registers: cut it in two");
    stages_.push_back({{.op = StageOp::spill, .type = widest(), .wide = wide_, .a = reg(r)}, 0, 0, 0, slot});
    result_is_last_ = false;
    slot_[static_cast<size_t>(value)] = slot;
  }
  ElementType widest() const { return wide_ ? ElementType::fp64 : ElementType::fp32; }

  void forget_dead() {
    for (int& value : held_)
      if (value >= 0 && next_use(value, now_ + 1) == kNever) value = -1;
    for (size_t value = 0; value < slot_.size(); ++value)
      if (slot_[value] >= 0 && next_use(static_cast<int>(value), now_ + 1) == kNever) slot_[value] = -1;
  }

  // ---- Stages ----

  void add(const WrittenStage& stage, int result) {
    stages_.push_back(stage);
    if (stage.key.save > 0) held_[stage.key.save] = held_[0];
    held_[0] = result;
    result_is_last_ = true;
  }

  // r0 to another register, r0 stays.
  void keep_in_register() {
    const int r = make_room(now_, true);
    AXONN_ASSERT(r > 0, "no register for an operand");
    add({{.op = StageOp::copy, .type = widest(), .wide = wide_, .a = Source::r0, .save = static_cast<uint8_t>(r)}},
        held_[0]);
    result_is_last_ = false;
  }

  void bring_to_r0(int value) {
    if (held_[0] == value) return;
    const int r = must_save(now_) ? make_room(now_, true) : 0;
    const Source from = source_of(value);
    const bool typed = from == Source::number || from >= Source::fp32;
    add({{.op = StageOp::copy,
          .type = typed ? node(value).type : widest(),
          .wide = wide_,
          .a = from,
          .save = static_cast<uint8_t>(r)},
         field_of(value, from)},
        value);
  }

  void keep_in_register(int value) {
    for (int r = 1; r < 4; ++r)
      if (held_[r] == value) return;
    bring_to_r0(value);
    keep_in_register();
  }

  // ---- Items ----

  void compute(const ChainItem& item) {
    const ChainNode& made = node(item.node);
    if (made.op == StageOp::copy) {
      bring_to_r0(made.operands[0]);
      held_[0] = item.node;
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
      for (int r = 1; r < 4 && made.operands[i] >= 0; ++r)
        if (held_[r] == made.operands[i]) sources[i] = reg(r);
    AXONN_ASSERT(try_stage(item, made.operands, sources), "no stage for item ", now_);
  }

  // The operand to bring to r0 where no stage fits: one in memory, or else in another register.
  int best_for_r0(const ChainNode& made) const {
    int best = -1;
    for (const int value : made.operands) {
      if (value < 0 || value == held_[0] || is_number(value)) continue;
      if (best < 0 || register_of(value) < 0) best = value;
    }
    return best;
  }

  bool try_orders(const ChainItem& item) {
    std::array<int, 3> operands = node(item.node).operands;
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
    if (must_save(now_ + 1)) {
      stage.key.save = 1;
      const bool joined = find_stage(stage.key) >= 0;
      stage.key.save = 0;
      const int r = make_room(joined ? now_ + 1 : now_, !joined);
      if (joined)
        stage.key.save = static_cast<uint8_t>(r);
      else if (r > 0)
        add({{.op = StageOp::copy, .type = widest(), .wide = wide_, .a = Source::r0, .save = static_cast<uint8_t>(r)}},
            held_[0]);
    }
    stage.a = sources[0] == Source::none ? 0 : field_of(operands[0], sources[0]);
    stage.b = sources[1] == Source::none ? 0 : field_of(operands[1], sources[1]);
    stage.c = sources[2] == Source::none ? 0 : field_of(operands[2], sources[2]);
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

  const std::vector<ChainNode>& nodes_;
  const std::vector<ChainItem>& items_;
  bool wide_;
  bool computes_numbers_;               // in such a chain, computed numbers are values as others
  std::vector<std::vector<int>> uses_;  // by value: items, ascending
  std::vector<int> slot_;               // by value: place in the scratch memory, or -1
  int held_[4] = {-1, -1, -1, -1};      // values of the registers
  bool result_is_last_ = false;         // the last stage computed r0
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
