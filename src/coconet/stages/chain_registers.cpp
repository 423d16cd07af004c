#include "coconet/stages/chain_registers.hpp"

#include <algorithm>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

constexpr int kNever = 1 << 30;

}  // namespace

ChainRegisters::ChainRegisters(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items)
    : nodes_(nodes),
      items_(items),
      computes_numbers_(!items.empty() && node(items.front().node).is_number),
      uses_(nodes.size()),
      slot_(nodes.size(), -1) {
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

// The first use of a value at item `from` or later.
int ChainRegisters::next_use(int value, int from) const {
  const std::vector<int>& uses = uses_[static_cast<size_t>(value)];
  const auto found = std::ranges::lower_bound(uses, from);
  return found == uses.end() ? kNever : *found;
}

bool ChainRegisters::is_number(int value) const {
  return node(value).kind == ChainNode::Kind::number || (node(value).is_number && !computes_numbers_);
}

bool ChainRegisters::is_readable(int value) const {
  return is_number(value) || node(value).kind == ChainNode::Kind::load || scratch(value) >= 0;
}

int ChainRegisters::register_of(int value) const {
  if (held_[0] == value) return 0;
  const int r = other_register_of(value);
  return r > 0 ? r : -1;
}

int ChainRegisters::other_register_of(int value) const {
  for (int r = 1; r < 4; ++r)
    if (held_[r] == value) return r;
  return 0;
}

Source ChainRegisters::source_of(int value, int now) const {
  if (value < 0) return Source::none;
  if (const int r = register_of(value); r >= 0) return reg(r);
  if (is_number(value)) return Source::number;
  if (node(value).kind == ChainNode::Kind::load) return node(value).memory;
  AXONN_ASSERT(scratch(value) >= 0, "value ", value, " is nowhere at item ", now);
  return Source::scratch;
}

int ChainRegisters::field_of(int value, Source source) const {
  if (source == Source::scratch) return scratch(value);
  return source >= Source::number ? node(value).index : 0;
}

bool ChainRegisters::must_save(int from) const {
  const int value = held_[0];
  if (value < 0 || next_use(value, from) == kNever || is_readable(value)) return false;
  return other_register_of(value) == 0;
}

bool ChainRegisters::is_operand(int value, int now) const {
  const ChainItem& item = items_[static_cast<size_t>(now)];
  if (!item.computes()) return value == item.node;
  return std::ranges::count(node(item.node).operands, value) > 0;
}

int ChainRegisters::free_register(int from) const {
  for (int r = 1; r < 4; ++r)
    if (held_[r] < 0 || next_use(held_[r], from) == kNever) return r;
  return 0;
}

int ChainRegisters::farthest(int now, int from, bool keep_operands) const {
  int found = held_[0] >= 0 ? 0 : -1, last = found == 0 ? next_use(held_[0], now + 1) : -1;
  if (keep_operands && found == 0 && is_operand(held_[0], now)) last = now;
  for (int r = 1; r < 4; ++r) {
    const int next = next_use(held_[r], from);
    if (next > last) {
      found = r;
      last = next;
    }
  }
  return found;
}

int ChainRegisters::spill(int value) {
  int slot = 0;
  while (std::ranges::count(slot_, slot) > 0) ++slot;
  AXONN_CHECK(slot < StageChain::kMostSpilled, "coconet.stage_chain", "more than ", StageChain::kMostSpilled,
              " values of this kernel must wait outside registers: cut it in two");
  return slot_[static_cast<size_t>(value)] = slot;
}

void ChainRegisters::set_result(int result, int save) {
  if (save > 0) held_[save] = held_[0];
  held_[0] = result;
}

void ChainRegisters::forget_dead(int now) {
  for (int& value : held_)
    if (value >= 0 && next_use(value, now + 1) == kNever) value = -1;
  for (size_t value = 0; value < slot_.size(); ++value)
    if (slot_[value] >= 0 && next_use(static_cast<int>(value), now + 1) == kNever) slot_[value] = -1;
}

}  // namespace axonn::coconet
