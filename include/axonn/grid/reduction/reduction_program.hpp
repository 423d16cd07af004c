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
inline constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                            Collective::reduce, Collective::broadcast};
std::string_view to_string(Collective collective);  // "all-reduce", "reduce-scatter", ...

// One collective that runs on all these groups at the same time. The order within a group matters:
// reduce-scatter gives part i to member i, and the first member is the root of reduce and
// broadcast. A rank in no group keeps its data.
struct ReductionStep {
  Collective collective = Collective::all_reduce;
  std::vector<std::vector<int>> groups;
  bool operator==(const ReductionStep&) const = default;
};

// A lowered reduction program (P2, section 3.4). It sums a buffer that every rank has, one
// collective after the other. perfmodel makes it or a user writes it; comm runs it.
//
// Text form for a command line: steps are joined by '/', groups by ',', the ranks of a group by
// '+'. "4-7" means consecutive ranks and "0-12@4" every fourth one:
//   reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7
// A program without steps is "none". In a file each step may be on its own line.
struct ReductionProgram {
  std::vector<ReductionStep> steps;
  std::string to_string() const;
  bool operator==(const ReductionProgram&) const = default;
};

// UserError that names the step and its fault: an unknown collective (with the nearest name), a
// rank that is not a number, or a malformed run of ranks.
ReductionProgram parse_reduction_program(std::string_view text);

// UserError unless every step has groups, every group has at least two different ranks from 0 to
// ranks - 1, and the groups of a step are disjoint. It does not check the result of the program:
// held_chunks (below) and check_reduces (reduction_semantics.hpp) do.
void check_reduction_program(const ReductionProgram& program, int ranks);

// The parts of the buffer that each rank holds. The buffer is divided into `chunks` equal parts:
// the fewest with which every reduce-scatter divides evenly.
struct HeldChunks {
  int64_t chunks = 1;
  // held[s][r]: the chunks of rank r before step s, or after the last step where s is the number of
  // steps. They are ascending ranges that do not touch.
  std::vector<std::vector<std::vector<Range>>> held;

  int64_t count(size_t step, int rank) const;  // number of chunks in held[step][rank]
};

// Follows the data of a program (Figure 8 of P2, but without the contributions in each chunk).
// all-reduce, reduce-scatter and reduce need the same chunks on all members. all-gather needs equal
// numbers of different chunks. broadcast needs a root that has every chunk of the others. A group
// without any data is an error. Calls check_reduction_program first. UserError names the step and
// two ranks of the group that breaks a rule.
HeldChunks held_chunks(const ReductionProgram& program, int ranks);

// The same flow as shares of the buffer: [s][r] is what rank r holds before step s. Time and memory
// grow with ranks x steps, where held_chunks() may need a range for every pair of ranks.
using HeldShares = std::vector<std::vector<double>>;
HeldShares held_shares(const ReductionProgram& program, int ranks);

}  // namespace axonn
