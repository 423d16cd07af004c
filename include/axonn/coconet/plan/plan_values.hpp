#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Stands for a thing of a table, by its place there. One that is made of nothing stands for no
// thing, and is false.
template <typename Thing>
class Handle {
 public:
  constexpr Handle() = default;
  constexpr explicit Handle(size_t index) : index_(static_cast<int32_t>(index)) {}
  constexpr explicit operator bool() const { return index_ >= 0; }
  constexpr size_t index() const { return static_cast<size_t>(index_); }
  friend constexpr auto operator<=>(Handle, Handle) = default;

 private:
  int32_t index_ = -1;
};

// A value of a program, and the place in memory that it lies in. From plans on, these stand for
// values; names are only read from texts and written into them. The language before plans keeps
// names: its rules make programs of programs, as text has them.
using ValueId = Handle<struct PlanValue>;
using BufferId = Handle<struct PlanBuffer>;

// A declared or computed value, as the program has it.
struct PlanValue {
  std::string name;
  TensorType type;
  bool declared = false;
  bool returned = false;
  Expression expression;            // the statement's; a declared value's is a reference to itself
  std::vector<ValueId> operands;    // the root's; none where one is no reference
  std::vector<ValueId> references;  // all that the expression has, from left to right
  std::vector<ValueId> readers;     // the statements that refer to it, in order
  ValueId update;                   // a declared tensor's: the statement that stores into it
  // A number of the host, which every rank has.
  bool is_number() const { return type.is_scalar() && type.distribution.is(Placement::replicated); }
};

// The table of a program's values: the declared ones first, then the statements, both in order.
class PlanValues {
 public:
  explicit PlanValues(const Program& program);

  const PlanValue& operator[](ValueId id) const { return values_[id.index()]; }
  size_t size() const { return values_.size(); }
  const std::vector<ValueId>& declarations() const { return declarations_; }
  const std::vector<ValueId>& statements() const { return statements_; }

  // No value's if there is none of this name.
  ValueId find(std::string_view name) const;
  // The value that a reference stands for.
  ValueId of(const Expression& reference) const;

 private:
  std::vector<PlanValue> values_;
  std::vector<ValueId> declarations_, statements_;
  std::map<std::string, ValueId, std::less<>> by_name_;
};

}  // namespace axonn::coconet
