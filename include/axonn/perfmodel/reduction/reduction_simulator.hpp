#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// One level of a machine, outermost first, as in Hierarchy: `size` units in each unit above. Each unit has one full-duplex link to its
// siblings.
struct NetworkLevel {
  std::string name;
  int size = 1;
  double bandwidth_bytes_per_second = 0;  // each direction
  double latency_seconds = 0;             // of a message that has to go through this level
  bool shared = false;  // one link a unit, for all devices in it (a NIC); otherwise each device has one of its own (a NIC per GPU)
};

struct Network {
  std::vector<NetworkLevel> levels;
  // Every program first copies its input to where it may change it (its buffer is read and written once). 0: it works in place.
  double memory_bytes_per_second = 0;
};

// UserError for no levels, sizes below 1, bandwidths that are not positive, negative latencies.
void check_network(const Network& network);

// What the communication library does inside one collective. Tree is NCCL's: all-reduce on two binary trees over the units of the outermost
// level that a group crosses, each with half of the data, chains inside the units; the other four collectives are rings all the same.
enum class CollectiveAlgorithm : uint8_t { ring, tree };

struct ReductionTime {
  double seconds = 0;
  double copy_seconds = 0;
  std::vector<double> step_seconds;
};

// Seconds that a program takes on a machine whose devices are ranks 0 .. devices-1, when each device has `bytes` to reduce. Steps run one
// after the other, the groups of a step at the same time. A step lasts as long as its busiest link is busy, plus the latency of its longest
// group:
//
//   ring of g members with n bytes each, over every link between neighbours: all-reduce 2 n (g-1)/g; reduce-scatter n (g-1)/g; all-gather
//   (of n bytes after it) n (g-1)/g; reduce and broadcast n, pipelined along the ring without its last link.
//
// Rings visit devices in the order of their numbers, so that a group crosses each unit once in and once out, however its members are
// ordered. A message between two units of level l loads the links of l and of the levels below it, at both ends. UserError for programs
// that held_chunks refuses.
ReductionTime simulate_reduction(const Network& network, const ReductionProgram& program, double bytes,
                                 CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring);

}  // namespace axonn
