#pragma once

#include <string>
#include <string_view>

#include "axonn/coconet/language/dataflow.hpp"

// Programs as text. Each line has one statement, which goes on while a parenthesis or bracket is
// open; # begins a comment:
//
//   program adam                              # first
//   groups 2                                  # left out: 1
//   size T, K
//   tensor g fp32 [T, K] local                # or replicated, sliced(DIM), rooted(RANK)
//   tensor w fp32 [T, 4*K] replicated on 1    # group 1; left out: group 0
//   tensor z fp32 [T, K] replicated = w       # an optimizer's state, which begins as the weights,
//                                             # or as a number; left out: 0
//   scalar lr = 0.001
//   scalar step                               # given by who runs the program
//   sum = all_reduce(+, g)
//   fuse f {                                  # or overlap, which may hold fused sections
//     m1 = update(m, beta1 * m + (1 - beta1) * sum)
//     v1 = update(v, beta2 * v + (1 - beta2) * sum * sum)
//   }
//   return m1, v1                             # last; left out: tensors are updated, that is all
//
// Expressions have C's precedences, and ^ for powers, which groups from the right and binds closer
// than a sign. Comparisons do not chain. Reductions are +, max and min. Settings follow the
// operands: dim=0 (the default), dims=[0, 1], root=0, stream=0 by name and in any order;
// cast(x, fp32), dropout(x, 0.1) and send(x, GroupRank(GROUP+1, RANK)) without one. A reduction,
// an element type and a probability are never left out.
namespace axonn::coconet {

// A text that parse_program() reads as an equal program.
std::string to_text(const Program& program);

// UserError "FILE:LINE: expected ..., got ... (see column C of '...')" for text that is no program,
// "FILE: STATEMENT, line N: ..." for a rule that the program breaks. `guards`: for proofs only.
Program parse_program(std::string_view text, std::string_view file, const Guards& guards = {});

// A program and the text after it, from a line that begins with `schedule`.
struct ProgramAndRest {
  Program program;
  std::string_view rest;  // a part of the text; empty: there is none
  int rest_line = 0;      // the number of its first line in the file
};
ProgramAndRest parse_program_and_rest(std::string_view text, std::string_view file, const Guards& guards = {});

// The whole text as one expression. Errors call its file "expression".
Expression parse_expression(std::string_view text);

}  // namespace axonn::coconet
