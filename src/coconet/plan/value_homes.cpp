#include "coconet/plan/value_homes.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "coconet/plan/roles.hpp"

namespace axonn::coconet {
namespace {

class HomeChooser {
 public:
  HomeChooser(const Program& program, const PlanValues& values) : program_(program), values_(values) {
    homes_.of.resize(values.size());
  }

  ValueHomes run() {
    for (const ValueId id : values_.declarations()) declare(id);
    for (const ValueId id : values_.statements()) {
      const BufferId home = home_of(id);
      homes_.of[id.index()] = home;
      mark_overwritten(id);
    }
    return std::move(homes_);
  }

 private:
  BufferId home(ValueId id) const { return homes_.of[id.index()]; }
  PlanBuffer& buffer(BufferId id) { return homes_.buffers[id.index()]; }
  const PlanBuffer& buffer(BufferId id) const { return homes_.buffers[id.index()]; }

  BufferId add(PlanBuffer made) {
    homes_.buffers.push_back(std::move(made));
    return BufferId(homes_.buffers.size() - 1);
  }

  void declare(ValueId id) {
    const PlanValue& value = values_[id];
    if (value.is_number()) return;
    homes_.of[id.index()] = add({.value = id,
                                 .type = value.type,
                                 .declared = true,
                                 .updated = static_cast<bool>(value.update),
                                 .by_dim = value.type.distribution.is(Placement::sliced) && only_products_read(value)});
  }

  BufferId home_of(ValueId id) {
    const PlanValue& value = values_[id];
    const Expression& root = value.expression;
    if (root.is(Operation::update)) return home(value.operands[0]);
    if (value.is_number()) return {};
    if (is_view(root) && reads_in_place(home(value.operands[0]))) return home(value.operands[0]);
    if (stays_in_messages(value)) return {};
    if (const ValueId tensor = stored_by(id); tensor && nobody_reads_after(tensor, id)) return home(tensor);
    if (stays_in_registers(value)) return {};
    if (reduces(root) && in_place(value)) return home(value.operands[0]);
    return add({.value = id, .type = value.type});
  }

  // A part stays where the whole is, if that keeps its value.
  bool reads_in_place(BufferId whole) const { return whole && !buffer(whole).updated; }

  // A sum takes the place of what is summed.
  void mark_overwritten(ValueId id) {
    const PlanValue& value = values_[id];
    if (!reduces(value.expression) || value.is_number()) return;
    const BufferId own = home(id), summed = home(value.operands[0]);
    if (!summed || (own && buffer(own).value == id)) return;
    if (own == summed || (stays_in_messages(value) && in_place(value))) buffer(summed).overwritten = true;
  }

  // The tensor in whose place a value is stored in the end, if there is one.
  ValueId stored_by(ValueId id) const {
    for (const ValueId reader : values_[id].readers) {
      const PlanValue& reads = values_[reader];
      if (reads.expression.is(Operation::update) && reads.operands[1] == id) return reads.operands[0];
      if (moves(reads.expression) && !reads.expression.is(Operation::send))
        if (const ValueId tensor = stored_by(reader)) return tensor;
    }
    return {};
  }

  // Whether the old value of a tensor is read before `writer`, or element by element in it only.
  bool nobody_reads_after(ValueId tensor, ValueId writer) const {
    const auto reads_rows = [&](const PlanValue& value) {
      return value.expression.is(OperationKind::layer) && std::ranges::count(value.references, tensor) > 0;
    };
    if (reads_rows(values_[writer])) return false;
    if (const Section* overlap = overlap_of(program_, values_[writer].name))  // an earlier member still reads then
      for (const std::string& beside : program_.statements_of(overlap->name))
        if (reads_rows(values_[values_.find(beside)])) return false;
    bool after = false;
    for (const ValueId id : values_.statements()) {
      const PlanValue& value = values_[id];
      const bool stores = value.expression.is(Operation::update) && value.operands[0] == tensor;
      const std::span<const ValueId> read = std::span(value.references).subspan(stores ? 1 : 0);
      if (after && std::ranges::count(read, tensor) > 0) return false;
      after = after || id == writer;
    }
    return true;
  }

  // A sum may take the place of a local tensor that nobody else reads.
  bool in_place(const PlanValue& value) const {
    const PlanValue& local = values_[value.operands[0]];
    const BufferId place = home(value.operands[0]);
    const bool whole_or_part =
        value.expression.is(Operation::all_reduce) || value.expression.is(Operation::reduce_scatter);
    return whole_or_part && !value.is_number() && local.readers.size() == 1 && place && !buffer(place).updated &&
           !local.returned;
  }

  // The slices of a transfer: the sums until they are sent, and what was sent until it is gathered.
  bool stays_in_messages(const PlanValue& value) const {
    const Section* overlap = overlap_of(program_, value.name);
    const bool passes = value.expression.is(Operation::reduce_scatter) || value.expression.is(Operation::send);
    if (!passes || overlap == nullptr || !sends(program_, *overlap) || value.returned) return false;
    const std::vector<std::string> inside = program_.statements_of(overlap->name);
    return std::ranges::all_of(value.readers,
                               [&](ValueId reader) { return std::ranges::count(inside, values_[reader].name) > 0; });
  }

  // A value of a fused section that only the section reads. A value that a tensor stores is in
  // memory, and so is one that a collective brings.
  bool stays_in_registers(const PlanValue& value) const {
    const Section* section = program_.section_of(value.name);
    if (section == nullptr || section->kind != SectionKind::fuse) return false;
    if (value.returned || is_plain(value)) return false;
    const Expression& root = value.expression;
    if (root.is(Operation::update) || root.is(OperationKind::reduction) || moves(root)) return false;
    const auto any_reader = [&](const auto& holds) {
      return std::ranges::any_of(value.readers, [&](ValueId reader) { return holds(values_[reader]); });
    };
    if (reduces(root) && any_reader([](const PlanValue& reader) { return moves(reader.expression); })) return false;
    return !any_reader([&](const PlanValue& reader) { return program_.section_of(reader.name) != section; });
  }

  // The dim that a product sums over is cut as in the program. Other slices are blocks of the flat
  // tensor.
  bool only_products_read(const PlanValue& tensor) const {
    return !tensor.readers.empty() && std::ranges::all_of(tensor.readers, [&](ValueId reader) {
      return values_[reader].expression.is(Operation::matmul);
    });
  }

  const Program& program_;
  const PlanValues& values_;
  ValueHomes homes_;
};

}  // namespace

ValueHomes choose_homes(const Program& program, const PlanValues& values) { return HomeChooser(program, values).run(); }

}  // namespace axonn::coconet
