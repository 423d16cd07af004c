#pragma once

#include <cstdint>

#include "axonn/coconet/transform/transformation.hpp"

namespace axonn::coconet {

enum class TransformationRule : uint8_t {
  split_all_reduce,
  split_replicated,
  join,
  sections,
  reorder_gather,
  reorder_kinds,
  reorder_reads,
  reorder_back,
  as_slice_reads,
  as_slice_update,
  dead,
};

// A program in the making: its parts, and checks that name the transformation.
class Rewrite {
 public:
  Rewrite(const Program& program, const Transformation& transformation, const Guards& rules)
      : before(program), what(transformation), guards(rules), parts(program.parts()) {}

  void check(bool holds, TransformationRule rule, std::string_view got) const;
  // The statement with this name; it may not be a member of a section.
  const Statement& free_statement(const std::string& name) const;
  std::vector<Statement>::iterator place_of(const std::string& name);
  // The program that the parts make.
  Program finished();

  const Program& before;
  const Transformation& what;
  const Guards& guards;
  ProgramParts parts;
};

// reorder and reorder_back, in files of their own.
void reorder_past_gather(Rewrite& rewrite);
void reorder_back_before_gather(Rewrite& rewrite);

}  // namespace axonn::coconet
