#include "axonn/coconet/update/update_program.hpp"

#include <algorithm>
#include <set>

#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/core/error.hpp"
#include "coconet/update/update_rules.hpp"

namespace axonn::coconet {
namespace {

bool is_number(const TensorType& type) { return type.is_scalar() && type.distribution.is(Placement::replicated); }

bool is_rows(const Shape& shape, const Shape& elements) {
  return shape.size() == 2 && shape[0] == elements[0] && shape[1].is_one();
}

}  // namespace

// The norm is computed in any case: an optimizer that does not need it may leave it out.
void UpdateProgram::add_norm() {
  if (program_.find_statement(kGradientNorm) != nullptr || program_.find_declaration(kGradientNorm) != nullptr) return;
  ProgramParts parts = program_.parts();
  const Expression length = coconet::norm(Expression::reference(sum_));
  const bool scaled = has_number(kUnscale);
  const auto sums = std::ranges::find(parts.statements, sum_, &Statement::name);
  parts.statements.insert(
      sums + 1, {std::string(kGradientNorm), scaled ? Expression::reference(std::string(kUnscale)) * length : length,
                 sums->line});
  program_ = Program(std::move(parts));
}

UpdateProgram::UpdateProgram(Program program) : program_(std::move(program)) {
  find_sum();
  add_norm();
  check_shapes();
  find_state();
  for (const Statement& statement : program_.statements())
    if (statement.name != sum_) check_operations(program_, statement.expression, statement);
  const Statement* norm = program_.find_statement(kGradientNorm);
  check(norm != nullptr && is_number(program_.type(kGradientNorm)), UpdateRule::norm, program_,
        norm == nullptr ? "a declared value" : program_.written(norm->expression), norm == nullptr ? 0 : norm->line);
  if (const Statement* factor = program_.find_statement(kGradientFactor))
    check(is_number(program_.type(kGradientFactor)), UpdateRule::factor, program_, program_.written(factor->expression),
          factor->line);
}

// The gradients, and their sum.
void UpdateProgram::find_sum() {
  const ProgramParts& parts = program_.parts();
  check(parts.groups == 1 && parts.sections.empty(), UpdateRule::plain, program_,
        std::to_string(parts.groups) + " groups, " + std::to_string(parts.sections.size()) + " sections");
  for (const Declaration& declaration : parts.declarations) {
    if (!declaration.type.distribution.is(Placement::local)) continue;
    check(gradients_.empty(), UpdateRule::gradient, program_, "'" + gradients_ + "' and '" + declaration.name + "'",
          declaration.line);
    gradients_ = declaration.name;
  }
  check(!gradients_.empty(), UpdateRule::gradient, program_, "no local tensor");
  const std::vector<std::string> readers = program_.consumers_of(gradients_);
  check(readers.size() == 1, UpdateRule::gradient, program_,
        std::to_string(readers.size()) + " statements that read '" + gradients_ + "'");
  sum_ = readers[0];
  const Statement& sums = program_.statement(sum_);
  check(sums.expression.is(Operation::all_reduce) && sums.expression.attributes().reduction == ReduceOp::sum,
        UpdateRule::gradient, program_, sum_ + " = " + program_.written(sums.expression), sums.line);
}

void UpdateProgram::check_shapes() const {
  const ProgramParts& parts = program_.parts();
  const Shape& elements = program_.type(gradients_).shape;
  check(elements.size() == 2 && elements[0] != elements[1] && !elements[1].is_one(), UpdateRule::shapes, program_,
        gradients_ + " " + coconet::to_string(elements));
  const auto check_value = [&](const std::string& name, int line) {
    const TensorType& type = program_.type(name);
    const bool fits = type.is_scalar() || type.shape == elements || is_rows(type.shape, elements);
    check(fits, UpdateRule::shapes, program_, program_.written(name) + " " + type.to_string(), line);
  };
  for (const Declaration& declaration : parts.declarations) check_value(declaration.name, declaration.line);
  for (const Statement& statement : parts.statements) check_value(statement.name, statement.line);
}

// The weights and other state that it updates.
void UpdateProgram::find_state() {
  const ProgramParts& parts = program_.parts();
  const Shape& elements = program_.type(gradients_).shape;
  check(parts.outputs.size() == 1, UpdateRule::weights, program_, std::to_string(parts.outputs.size()) + " values",
        parts.return_line);
  const Statement* output = program_.find_statement(parts.outputs[0]);
  check(output != nullptr && output->expression.is(Operation::update) && program_.type(output->name).shape == elements,
        UpdateRule::weights, program_, "'" + parts.outputs[0] + "'", parts.return_line);
  weights_ = master_ = output->expression.operands()[0].name();
  const Expression& value = output->expression.operands()[1];
  if (value.is(Operation::cast) && value.operands()[0].is(Operation::reference)) {
    const Statement* source = program_.find_statement(value.operands()[0].name());
    if (source != nullptr && source->expression.is(Operation::update))
      master_ = source->expression.operands()[0].name();
  }
  for (const Declaration& declaration : parts.declarations) {
    const bool updated = program_.update_of(declaration.name) != nullptr;
    const TensorType& type = declaration.type;
    const std::string got = declaration.name + " " + type.to_string();
    if (is_number(type)) {
      const bool set = declaration.value || std::ranges::count(kTrainerNumbers, declaration.name) > 0;
      check(set, UpdateRule::scalars, program_, "'" + declaration.name + "'", declaration.line);
    } else if (is_rows(type.shape, elements)) {
      check(declaration.name == kDecay && !updated, UpdateRule::rows, program_, got, declaration.line);
    } else if (declaration.name != gradients_) {
      check(updated, UpdateRule::state, program_, got, declaration.line);
      if (declaration.name != weights_) state_.push_back(declaration.name);
    }
    const bool is_state = !state_.empty() && state_.back() == declaration.name && declaration.name != master_;
    const bool copies = !declaration.copy_of.empty(), starts = copies || (declaration.value && !is_number(type));
    const bool of_weights = declaration.copy_of == weights_ || declaration.copy_of == master_;
    check(!starts || (is_state && (!copies || of_weights)), UpdateRule::start, program_,
          declaration.name + " = " + (copies ? declaration.copy_of : std::to_string(declaration.value.value_or(0))),
          declaration.line);
  }
}

std::vector<std::string> UpdateProgram::settings() const {
  std::vector<std::string> names;
  for (const Declaration& declaration : program_.declarations())
    if (is_number(declaration.type) && std::ranges::count(kTrainerNumbers, declaration.name) == 0 &&
        declaration.name != kAverageRate)
      names.push_back(declaration.name);
  return names;
}

std::vector<UpdateProgram::Start> UpdateProgram::starts() const {
  std::vector<Start> all;
  for (const std::string& tensor : state_) {
    const Declaration& declaration = *program_.find_declaration(tensor);
    if (declaration.value || !declaration.copy_of.empty()) all.push_back({tensor, declaration.value});
  }
  return all;
}

bool UpdateProgram::updates_after_norm() const {
  std::set<std::string> after = {std::string(kGradientNorm)};
  for (const Statement& statement : program_.statements()) {
    const bool waits =
        std::ranges::any_of(after, [&](const std::string& name) { return statement.expression.refers_to(name); });
    if (waits) after.insert(statement.name);
    if (statement.expression.is(Operation::update) && !waits) return false;
  }
  return true;
}

UpdateProgram load_update_program(const std::filesystem::path& path) {
  ProgramFile file = load_program_file(path);
  try {
    return UpdateProgram(std::move(file.program));
  } catch (const UserError& error) {
    throw UserError(error.where(), path.string() + ": " + error.sentence());
  }
}

}  // namespace axonn::coconet
