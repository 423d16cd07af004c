#pragma once

#include <map>
#include <string>

#include "coconet/proofs/random_program.hpp"

namespace axonn::coconet::proofs {

// Schedules that ran on rank threads, and those that the executor refuses, by the reason.
//
// A schedule runs with all types turned to fp64, where its results must be those of the original
// program: the oracle's, and the executor's. Then both run in their own types. There the schedule
// may be as far from the original as four times what rounding makes of the original: the largest
// distance between its results in its own types and in fp64, and four units of the narrowest type.
//
// The oracle cuts dims, and the executor cuts the flat tensor. A value that depends on the cut,
// such as a rank's sum of its part, is compared with the executor's only.
class Executions {
 public:
  // "" if all results are equal, or if the executor refuses the schedule; else a difference.
  std::string compare(const RandomProgram& random, const Program& scheduled, Dice& dice);

  int ran() const { return ran_; }
  int differ() const { return differ_; }
  std::string to_text() const;

 private:
  bool refuses(const Program& scheduled, const SizeValues& sizes);
  std::string difference_of(const RandomProgram& random, const Program& scheduled, Dice& dice);

  int tried_ = 0, ran_ = 0, differ_ = 0;
  int overlapped_ = 0;                       // with a producer beside its collective
  int sending_ = 0;                          // between groups
  int with_original_ = 0;                    // the executor runs the original, too
  int narrow_ = 0;                           // that, and types beside fp64
  int same_bits_ = 0;                        // that, and the same bits in these types
  int excused_ = 0;                          // with elements that a comparison or an infinity turned
  int64_t values_ = 0, cut_values_ = 0;      // results; those that depend on the cut
  std::map<std::string_view, int> refused_;  // reason -> programs
};

}  // namespace axonn::coconet::proofs
