#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// One level of a machine: `size` units in each unit of the level above. Levels are outermost first,
// as in Hierarchy. Each unit has one full-duplex link to its siblings.
struct NetworkLevel {
  std::string name;
  int size = 1;
  double bandwidth_bytes_per_second = 0;  // in each direction
  double latency_seconds = 0;             // seconds per message through this level
  // One link per unit, shared by its devices (a NIC per node); otherwise one link per device.
  bool shared = false;
};

struct Network {
  std::vector<NetworkLevel> levels;
  // Every program first copies its input: one read and one write. 0: programs work in place.
  double memory_bytes_per_second = 0;
};

// UserError for no levels, sizes below 1, bandwidths that are not positive, negative latencies.
void check_network(const Network& network);

// Algorithm inside one collective. `tree` is NCCL's: an all-reduce uses two binary trees over the
// units of the outermost level that a group crosses, each with half of the data, and chains inside
// the units. The other four collectives are rings in both cases.
enum class CollectiveAlgorithm : uint8_t { ring, tree };

struct ReductionTime {
  double seconds = 0;
  double copy_seconds = 0;
  std::vector<double> step_seconds;
};

// Seconds that a program takes on a machine whose devices are ranks 0 .. devices-1, when each
// device reduces `bytes`. Steps run one after the other; the groups of a step run at the same time.
// A step takes the time of its busiest link, plus the latency of its slowest group.
//
// A ring of g members with n bytes each sends over every link between neighbours:
//   all-reduce          2 n (g-1)/g
//   reduce-scatter      n (g-1)/g
//   all-gather          n (g-1)/g, where n are the bytes after it
//   reduce, broadcast   n, pipelined along the ring without its last link
//
// Rings visit devices in ascending order, so a group enters and leaves each unit once, however its
// members are ordered. A message between two units of level l loads the links of l and of the
// levels below it, at both ends. UserError for programs that held_chunks() rejects.
ReductionTime simulate_reduction(const Network& network, const ReductionProgram& program, double bytes,
                                 CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring);

}  // namespace axonn
