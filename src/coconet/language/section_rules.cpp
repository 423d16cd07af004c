#include "coconet/language/section_rules.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

enum class SectionRule : uint8_t {
  members,
  order,
  layers,
  rooted,
  chain,
  final,
  aligned,
  overlap_chain,
  overlap_aligned
};
constexpr Rule kRules[] = {
    {"section-members",
     "a section has two members or more, each in no other section: statements, or fused sections "
     "in an overlap",
     "a statement runs once"},
    {"section-order", "no statement outside of a section both depends on it and feeds it",
     "CoCoNet, section 3.3: dependencies are preserved"},
    {"fuse-layers", "layers are not fused: overlap them", "a product reads whole rows and columns"},
    {"fuse-rooted", "reduce and broadcast are not fused: one rank would compute everything",
     "CoCoNet's FusedReduce and FusedBroadcast, which no schedule of its evaluation has"},
    {"fuse-chain",
     "a fused section has at most one collective that reduces, of a value from outside, and what it gathers or sends "
     "is only stored in it, and not updated by it",
     "CoCoNet, table of fused collectives: map after reduce, gather after map"},
    {"fuse-final",
     "a fused section reads sums and norms only if they are complete before it begins: its blocks come one by one",
     "clipping, LAMB's trust ratio"},
    {"fuse-aligned", "members of a fused section have one shape: a block of one is made of the same block of another",
     "one loop over the elements"},
    {"overlap-chain", "each member of an overlap reads a value of the member before it",
     "CoCoNet, section 3.4: producer and consumer"},
    {"overlap-aligned",
     "members of an overlap read values of earlier members, and tensors that it updates, element by element, not rows, "
     "sums or norms",
     "chunks go on before the whole is there"},
};

class SectionCheck {
 public:
  SectionCheck(const Program& program, const Section& section, const Guards& guards)
      : program_(program), section_(section), guards_(guards) {
    for (const std::string& name : program.statements_of(section.name)) inside_.insert(name);
  }

  void run() const {
    if (section_.kind == SectionKind::fuse)
      check_fuse();
    else
      check_overlap();
  }

  void check_members() const {
    check(section_.members.size() >= 2, SectionRule::members, std::to_string(section_.members.size()));
    for (const std::string& member : section_.members) {
      const Section* inner = program_.find_section(member);
      const bool fits = inner == nullptr ? program_.find_statement(member) != nullptr
                                         : section_.kind == SectionKind::overlap && inner->kind == SectionKind::fuse;
      int sections = 0;
      for (const Section& other : program_.sections())
        sections += static_cast<int>(std::ranges::count(other.members, member));
      check(fits && sections == 1, SectionRule::members, quoted(member));
    }
  }

 private:
  void check(bool holds, SectionRule rule, std::string_view got) const {
    std::string place = (section_.kind == SectionKind::fuse ? "fuse " : "overlap ") + section_.name;
    if (section_.line > 0) place += ", line " + std::to_string(section_.line);
    guards_.check(holds, "coconet.sections", kRules[static_cast<size_t>(rule)], place, got);
  }

  std::string quoted(const std::string& name) const { return "'" + program_.written(name) + "'"; }

  const Expression& expression(const std::string& name) const { return program_.statement(name).expression; }

  bool is_inside(const std::string& name) const { return inside_.contains(name); }

  static bool reduces(const Expression& expression) {
    return expression.is(Operation::all_reduce) || expression.is(Operation::reduce_scatter);
  }
  static bool moves(const Expression& expression) {
    return expression.is(Operation::all_gather) || expression.is(OperationKind::send);
  }
  static bool stores(const Expression& expression, const std::string& value) {
    return expression.is(Operation::update) && expression.operands()[1] == Expression::reference(value);
  }

  // The shape over which a statement loops.
  Shape loop_of(const std::string& name) const {
    const Expression& root = expression(name);
    return root.is(OperationKind::reduction) ? program_.type(root.operands()[0]).shape : program_.type(name).shape;
  }

  // A number that is the same for all blocks: made of scalars only.
  bool is_plain_scalar(const std::string& name) const { return program_.type(name).group == TensorType::kEveryGroup; }

  // Whether a member updates this tensor.
  bool updates(const std::string& tensor) const {
    const Statement* update = program_.update_of(tensor);
    return update != nullptr && is_inside(update->name);
  }

  // A gathered or sent value arrives when the section ends: there it may be stored, not read.
  void check_arrivals(const std::string& name) const {
    for (const std::string& reader : program_.consumers_of(name)) {
      if (!is_inside(reader)) continue;
      check(stores(expression(reader), name), SectionRule::chain, quoted(reader) + ", which reads " + quoted(name));
      for (const std::string& second : program_.consumers_of(reader))
        check(!is_inside(second), SectionRule::chain, quoted(second) + ", which reads " + quoted(reader));
    }
  }

  void check_fuse() const {
    int reducers = 0;
    const Shape* loop = nullptr;
    std::vector<Shape> loops;
    loops.reserve(inside_.size());
    for (const std::string& name : inside_) {
      const Expression& root = expression(name);
      check(!root.is(OperationKind::layer), SectionRule::layers, quoted(name));
      check(!root.is(Operation::reduce) && !root.is(Operation::broadcast), SectionRule::rooted, quoted(name));
      if (reduces(root)) {
        check(++reducers == 1 && !is_inside(root.operands()[0].name()), SectionRule::chain, quoted(name));
      }
      if (moves(root)) {
        check_arrivals(name);
        check(!updates(root.operands()[0].name()), SectionRule::chain,
              "an update of " + quoted(root.operands()[0].name()) + ", which " + quoted(name) + " reads");
      }
      if (root.is(OperationKind::reduction))
        for (const std::string& consumer : program_.consumers_of(name))
          check(!is_inside(consumer), SectionRule::final, quoted(consumer) + ", which reads " + quoted(name));
      if (is_plain_scalar(name)) continue;
      loops.push_back(loop_of(name));
      if (loop == nullptr) loop = &loops.front();
      check(loops.back() == *loop, SectionRule::aligned,
            quoted(name) + " " + to_string(loops.back()) + " beside " + to_string(*loop));
    }
  }

  void check_overlap() const {
    std::set<std::string> earlier;
    for (size_t i = 0; i < section_.members.size(); ++i) {
      const std::vector<std::string> statements = program_.statements_of(section_.members[i]);
      bool reads_the_last = i == 0;
      for (const std::string& name : statements) {
        expression(name).for_each_reference([&](const std::string& read) {
          if (i > 0 && std::ranges::count(program_.statements_of(section_.members[i - 1]), read) > 0)
            reads_the_last = true;
          if (!earlier.contains(read) && !updates(read)) return;
          const bool computed = earlier.contains(read);
          const bool whole =
              expression(name).is(OperationKind::layer) || (computed && expression(read).is(OperationKind::reduction));
          const Shape shape = computed ? loop_of(read) : program_.type(read).shape;
          check(!whole && loop_of(name) == shape, SectionRule::overlap_aligned,
                quoted(name) + ", which reads " + quoted(read));
        });
      }
      check(reads_the_last, SectionRule::overlap_chain, quoted(section_.members[i]));
      earlier.insert(statements.begin(), statements.end());
    }
  }

  const Program& program_;
  const Section& section_;
  const Guards& guards_;
  std::set<std::string> inside_;
};

}  // namespace

const Rule kSectionOrderRule = kRules[static_cast<size_t>(SectionRule::order)];

std::span<const Rule> section_rules() { return kRules; }

void check_members(const Program& program, const Guards& guards) {
  for (const Section& section : program.sections()) SectionCheck(program, section, guards).check_members();
}

void check_sections(const Program& program, const Guards& guards) {
  for (const Section& section : program.sections()) SectionCheck(program, section, guards).run();
}

}  // namespace axonn::coconet
