#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/language/distribution.hpp"
#include "axonn/coconet/language/expression.hpp"
#include "axonn/coconet/language/guards.hpp"

// Programs of computation and communication as data (CoCoNet, Jangda et al., ASPLOS 2022, section
// 2): every value has a distribution, every statement one meaning, and a schedule is a program too.
namespace axonn::coconet {

// A tensor or a scalar that the program gets. `update` changes tensors in place.
struct Declaration {
  std::string name;
  TensorType type;
  // A scalar's value if none is given, or that of all elements of an optimizer's state at first.
  std::optional<double> value = {};
  std::string copy_of = {};  // the tensor that an optimizer's state is a copy of at first
  int line = 0;              // in its file; 0: none
  friend bool operator==(const Declaration& a, const Declaration& b);
};

// NAME = EXPRESSION. Layers, collectives, sends, reductions and updates stand at the root of their
// statement; the operands of layers, collectives and sends are references.
struct Statement {
  std::string name;
  Expression expression;
  int line = 0;
  std::string part_of = {};  // the statement in whose text it stands, if it was made of a part of one
  friend bool operator==(const Statement& a, const Statement& b);
};

enum class SectionKind : uint8_t { fuse, overlap };

// Statements that run as one. fuse: one kernel or fused collective, block by block. overlap:
// several, each a producer of the next, chunk by chunk; members may be fused sections.
struct Section {
  SectionKind kind = SectionKind::fuse;
  std::string name;
  std::vector<std::string> members;
  int line = 0;
  friend bool operator==(const Section& a, const Section& b);
};

// The parts of a Program. Transformations change a copy and make a Program of it, which checks
// everything anew.
struct ProgramParts {
  std::string name;
  std::vector<std::string> sizes;  // the symbols of shapes, in the order of their declaration
  int groups = 1;                  // groups of ranks, all as large; one after the other in the job
  std::vector<Declaration> declarations;
  std::vector<Statement> statements;
  std::vector<Section> sections;
  std::vector<std::string> outputs;
  int return_line = 0;
  friend bool operator==(const ProgramParts& a, const ProgramParts& b);
};

// The rules of names, order and outputs that every program keeps, and those of its sections:
// which statements may run as one.
std::span<const Rule> program_rules();
std::span<const Rule> section_rules();

// A program that keeps typing_rules(), program_rules() and section_rules(). Immutable. It has at
// most kMostNames sizes, declarations, statements and sections together. Lines do not count when
// programs are compared.
//
// An operation deep in an expression that must stand at the root of a statement gets one of its
// own, named after the statement: w1.1, w1.2. Statements keep their order, except that the members
// of a section follow each other.
class Program {
 public:
  static constexpr int64_t kMostNames = 2000;
  static constexpr int kMostGroups = 1 << 16;

  // UserError with the rule's name and the statement. `guards`: for proofs only.
  explicit Program(ProgramParts parts, const Guards& guards = {});

  const ProgramParts& parts() const { return parts_; }
  const std::string& name() const { return parts_.name; }
  const std::vector<Declaration>& declarations() const { return parts_.declarations; }
  const std::vector<Statement>& statements() const { return parts_.statements; }
  const std::vector<Section>& sections() const { return parts_.sections; }
  const std::vector<std::string>& outputs() const { return parts_.outputs; }

  // The type of a declared or computed value; UserError "no value X, did you mean Y".
  const TensorType& type(std::string_view name) const;
  TensorType type(const Expression& expression) const;
  const Statement& statement(std::string_view name) const;
  // Null if there is none of this name.
  const Statement* find_statement(std::string_view name) const;
  const Declaration* find_declaration(std::string_view name) const;
  const Section* find_section(std::string_view name) const;
  // The section that lists this statement or section as a member; null: none.
  const Section* section_of(std::string_view member) const;
  // The statements of a statement (itself) or of a section, in order.
  std::vector<std::string> statements_of(std::string_view member) const;
  // The statement that updates a declared tensor; null: none.
  const Statement* update_of(std::string_view tensor) const;
  std::vector<std::string> consumers_of(std::string_view name) const;  // statements, in order
  bool is_output(std::string_view name) const;
  // For errors: a value as the program's text has it, where parts of statements have no name.
  std::string written(std::string_view name) const;
  std::string written(const Expression& expression) const;

  friend bool operator==(const Program& a, const Program& b) { return a.parts_ == b.parts_; }

 private:
  // Checks and types the next statement; `updated`: the tensors that those before it update.
  void add_statement(const Statement& statement, std::set<std::string>& updated, const Guards& guards);

  ProgramParts parts_;
  std::map<std::string, TensorType, std::less<>> types_;
};

// Writes a program statement by statement, so that C++ reads like the paper's figures:
//   ProgramBuilder sgd("sgd");
//   const auto g = sgd.tensor("g", ElementType::fp32, {"N"}, Distribution::local());
//   const auto w = sgd.tensor("w", ElementType::fp32, {"N"});
//   const auto rate = sgd.scalar("lr", 0.1);
//   const auto sum = sgd.let("sum", all_reduce(ReduceOp::sum, g));
//   const Program program = sgd.returns({sgd.let("w1", update(w, w - rate * sum))});
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name, int groups = 1);
  // Symbols of the shape are declared by their first use.
  Expression tensor(std::string name, ElementType element, Shape shape,
                    Distribution distribution = Distribution::replicated(), int group = 0);
  Expression scalar(std::string name, std::optional<double> value = {});
  Expression let(std::string name, Expression expression);
  Program returns(const std::vector<Expression>& outputs) const;

 private:
  ProgramParts parts_;
};

}  // namespace axonn::coconet
