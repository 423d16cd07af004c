#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"
#include "axonn/coconet/oracle/oracle_cut.hpp"

// The meaning of programs: runs one for every rank, in one thread, in fp64 without any rounding to
// element types. Schedules and executors are judged by it; it shares no code with them.
//
// Every rank has its own numbers. Those that a rank does not hold, or that are not computed yet,
// are missing, and whatever is made of a missing number is missing. So a statement that reads what
// is not there shows in the results.
//
// Sections run so that a wrong one shows:
//   fuse     Its collective that reduces takes all contributions when the section begins. Then its
//            elements run in blocks, in an order that depends on OracleOptions::order: each block
//            through all statements on all ranks. Sums and norms read inside are those of the
//            blocks that have run. Gathered, broadcast and sent values arrive when the section
//            ends, if they are the same then as in their block; updates that only store one follow.
//   overlap  Member k runs chunk t - k at tick t, the last member first. A fused section runs its
//            chunk as one block.
// A block is a range of the elements of the section's first statement that is no plain scalar (of a
// reduction: of its operand); other statements run their own elements of that range.
namespace axonn::coconet {

struct OracleOptions {
  int ranks = 1;  // per group
  SizeValues sizes;
  Cut cut = Cut::contiguous();
  std::map<std::string, double, std::less<>> scalars;  // all that the program gives no value
  // Of dropout. Element e of its whole operand is dropped if word e % 4 of the Philox block (seed,
  // e / 4, step, stream) is below p as a number in [0, 1); others are multiplied by 1 / (1 - p).
  uint64_t seed = 0;
  uint32_t step = 0;
  int blocks = 3;      // per section
  uint64_t order = 0;  // seed: in which order the blocks of fused sections run
};

// Per declared tensor, row by row: its whole value, or for a local one the value of each rank.
using OracleInputs = std::map<std::string, std::vector<std::vector<double>>, std::less<>>;

// A value put together from the ranks of its group.
struct OracleValue {
  Distribution distribution;
  Extents extents;
  // Local: one part per rank. Others: one part, each element from the rank in `givers`.
  std::vector<std::vector<double>> parts;
  std::vector<int> givers;
  std::string fault;  // a difference of two replicas; "": none
};

struct OracleResult {
  std::map<std::string, OracleValue, std::less<>> outputs;
  std::map<std::string, OracleValue, std::less<>> states;  // updated tensors, by their own names
};

// The cost of run_oracle().
struct OracleCost {
  double operations = 0;  // on single elements, of all ranks
  double bytes = 0;
};
OracleCost oracle_cost(const Program& program, const OracleOptions& options);
// UserError with the numbers if they are more than some minutes of work, or than the host's free
// memory. `runs`: how often it is to run.
void check_oracle_cost(const Program& program, const OracleOptions& options, double runs = 1);

// UserError if a tensor, scalar or size has no value or one that does not fit, if a statement names
// a root that is not one of the ranks, or from check_oracle_cost().
OracleResult run_oracle(const Program& program, const OracleInputs& inputs, const OracleOptions& options);

// Numbers from 0.5 to 1.5 for every declared tensor: logarithms, roots and quotients exist.
OracleInputs random_inputs(const Program& program, const OracleOptions& options, uint64_t seed);

// Whether an element of a result was never computed, or made of one that was not. Such elements
// are NaNs that no computation makes.
bool is_missing(double element);

// "" if both have the same outputs and states, else the first difference: name, index, rank and
// both numbers. Numbers may differ by tolerance * max(1, |a|, |b|). Whole values are compared, so a
// tensor may be sliced in one and replicated in the other. NaN equals NaN, but nothing equals a
// missing element or a value with a fault.
std::string difference(const OracleResult& a, const OracleResult& b, double tolerance);

}  // namespace axonn::coconet
