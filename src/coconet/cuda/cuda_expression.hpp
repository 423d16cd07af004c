#pragma once

#include <string>

#include "coconet/stages/stage_key.hpp"

namespace axonn::coconet {

// A number in fp32 or fp64, as the compiler reads it back.
std::string cuda_literal(double number, ElementType type);

// The value of a stage's operation from its operands, which are fp32 or fp64: `type`.
std::string cuda_expression(StageOp op, ElementType type, const std::string& a, const std::string& b,
                            const std::string& c);

}  // namespace axonn::coconet
