#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <c10/core/Device.h>

#include <axonn/comm/environment.hpp>
#include <axonn/perfmodel/machine/machine.hpp>

struct Calibration {
  std::string name = "calibrated";
  // A preset or file that gives peaks, memory and price. Empty: the measured rates are the peaks.
  std::string base;
  c10::DeviceType device = c10::kCPU;  // each rank uses the device of its local rank
  int64_t bytes = int64_t{16} << 20;   // all-reduced buffer
  int repetitions = 5;                 // the median counts
  // Called with one line per measurement. Set on rank 0 only.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Measures the machine of this job's ranks, all ranks at the same time:
//   links     For every inner and size whose product divides the ranks: all-reduces in all groups
//             of `size` ranks `inner` apart, as along an axis of a grid. A ring of G ranks moves
//             2 (G-1)/G of the buffer. These bytes over the seconds of the slowest rank give a row
//             of [[measured]]. A hop is the time of a one-element all-reduce over 2 (G-1).
//   levels    Node: the ring over the ranks of a node. Network: all rings that leave a node.
//   products  FLOP/s of large products, and bytes/s of a copy (read and written).
// Every rank calls it and gets the same machine. UserError for a job of one rank, for nodes with
// different numbers of ranks, and for ranks that are not numbered node by node.
axonn::Machine measure_machine(axonn::Environment& environment, const Calibration& calibration);
