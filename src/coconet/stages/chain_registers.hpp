#pragma once

#include <vector>

#include "coconet/stages/chain_nodes.hpp"

namespace axonn::coconet {

// The places of a chain's values while its items are written one after the other. Registers 1 to 3
// hold values that are needed later; register 0 has the last result, and is an operand of most
// stages. Other values wait in the scratch memory. A loaded value or a number can be read again
// instead of being kept.
class ChainRegisters {
 public:
  ChainRegisters(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items);

  const ChainNode& node(int value) const { return nodes_[static_cast<size_t>(value)]; }
  int held(int r) const { return held_[r]; }                                  // the value of a register; -1: none
  int scratch(int value) const { return slot_[static_cast<size_t>(value)]; }  // its place there, or -1
  bool is_number(int value) const;
  bool is_readable(int value) const;  // elsewhere than in a register
  int register_of(int value) const;   // -1: none
  // One of r1 to r3; 0: none.
  int other_register_of(int value) const;
  Source source_of(int value, int now) const;
  // The number for such a source in a stage's operand field.
  int field_of(int value, Source source) const;

  // Whether writing r0 would lose its value, though item `from` or a later one uses it.
  bool must_save(int from) const;
  // A register among r1 to r3 without a value that item `from` or a later one uses; 0: none.
  int free_register(int from) const;
  // The register whose value is needed last, from item `from` on. Operands of item `now` count as
  // needed at once if `keep_operands`; then `from` is `now`.
  int farthest(int now, int from, bool keep_operands) const;

  // A place of its own in the scratch memory. UserError if there is none.
  int spill(int value);
  // r0 has `result` now, and another register what r0 had, if `save` is one.
  void set_result(int result, int save);
  // Nothing that only items up to `now` use is kept.
  void forget_dead(int now);

 private:
  int next_use(int value, int from) const;
  bool is_operand(int value, int now) const;

  const std::vector<ChainNode>& nodes_;
  const std::vector<ChainItem>& items_;
  bool computes_numbers_;               // in such a chain, computed numbers are values as others
  std::vector<std::vector<int>> uses_;  // by value: items, ascending
  std::vector<int> slot_;               // by value: place in the scratch memory, or -1
  int held_[4] = {-1, -1, -1, -1};
};

}  // namespace axonn::coconet
