#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// The collectives that reduction programs are made of (P2, section 3.2).
enum class Collective : uint8_t { all_reduce, reduce_scatter, all_gather, reduce, broadcast };
inline constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::reduce,
                                            Collective::broadcast};
std::string_view to_string(Collective collective);  // "all-reduce", "reduce-scatter", ...

// One collective that runs on all these groups at the same time. The order within a group matters: reduce-scatter gives member i the i-th
// part, and the first member is the root of reduce and broadcast. A rank in no group keeps what it has.
struct ReductionStep {
  Collective collective = Collective::all_reduce;
  std::vector<std::vector<int>> groups;
  bool operator==(const ReductionStep&) const = default;
};

// A lowered reduction program (P2, section 3.4): how a buffer that every rank has is summed, one collective after the other. Made by
// perfmodel or written by hand, run by comm.
//
// Text form, fit for a command line: steps joined by '/', groups by ',', ranks of a group by '+'; "4-7" are consecutive ranks and "0-12@4"
// every fourth one:  reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7.  A program without steps is "none". In a file
// each step may stand on its own line.
struct ReductionProgram {
  std::vector<ReductionStep> steps;
  std::string to_string() const;
  bool operator==(const ReductionProgram&) const = default;
};

// UserError with the step and what is wrong with it: unknown collectives (nearest name), ranks that are no numbers, malformed runs.
ReductionProgram parse_reduction_program(std::string_view text);

// UserError unless every step has groups, every group has at least two different ranks from 0 to ranks - 1, and the groups of a step are
// disjoint. Says nothing of what the program computes: held_chunks (below) and check_reduces (reduction_semantics.hpp) do.
void check_reduction_program(const ReductionProgram& program, int ranks);

// Which parts of the buffer each rank holds. The buffer is cut into `chunks` equal parts, the fewest with which every reduce-scatter
// divides evenly.
struct HeldChunks {
  int64_t chunks = 1;
  // held[s][r]: what rank r holds before step s (after the last one for s = number of steps), as ascending ranges that do not touch.
  std::vector<std::vector<std::vector<Range>>> held;

  int64_t count(size_t step, int rank) const;  // number of chunks in held[step][rank]
};

// Follows the data of a program (Figure 8 of P2, without asking whose contributions a chunk has): all-reduce, reduce-scatter and reduce
// need the same chunks on all members, all-gather as many but different ones, broadcast a root that has every chunk of the others; nobody
// brings nothing. Calls check_reduction_program first. UserError names the step and the group that break a rule.
HeldChunks held_chunks(const ReductionProgram& program, int ranks);

}  // namespace axonn
