#pragma once

#include "axonn/coconet/plan/schedule_plan.hpp"

// How the statements of a program are run: homes and steps follow from it.
namespace axonn::coconet {

// all_reduce, reduce_scatter or reduce.
bool reduces(const Expression& root);
// Another collective, or a send.
bool moves(const Expression& root);
// A part of a value that may be read where the value lies.
bool is_view(const Expression& root);

// The overlap that a statement is in, by itself or in a fused section; null: none.
const Section* overlap_of(const Program& program, const std::string& statement);
bool sends(const Program& program, const Section& overlap);

// A number that is made of the program's scalars: every rank computes it once.
inline bool is_plain(const PlanValue& value) { return value.type.group == TensorType::kEveryGroup; }

}  // namespace axonn::coconet
