#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <c10/core/Device.h>

#include <axonn/comm/environment.hpp>
#include <axonn/perfmodel/machine/machine.hpp>

struct Calibration {
  std::string name = "calibrated";
  std::string base;  // a preset or file whose data sheet is kept (peaks, memory, price); empty: what is measured is the peak
  c10::DeviceType device = c10::kCPU;                                       // of the ranks, each with the device of its number on its node
  int64_t bytes = int64_t{16} << 20;                                        // of the buffer that is summed for a bandwidth
  int repetitions = 5;                                                      // of which the median counts
  std::function<void(const std::string&)> say = [](const std::string&) {};  // a line on what was measured; of rank 0 alone
};

// The machine that the ranks of this job are on, measured together:
//   links     for every inner and size whose product divides the ranks: all-reduces in all groups of `size` ranks `inner` apart at the same
//             time, which is what an axis of a grid does. A ring of G moves 2 (G-1)/G of the buffer: that over the seconds of the slowest
//             rank is a row of the table [[measured]]. Hops are a 2 (G-1)th of an all-reduce of one element
//   levels    the node: its rings of consecutive ranks. The network: what all rings that leave a node have together
//   products  FLOP/s of large products, and bytes/s of a copy (read and written), while all ranks are at it
// Every rank calls it and gets the same. UserError for one rank alone, nodes with different numbers of ranks, and ranks that are not
// numbered node by node.
axonn::Machine measure_machine(axonn::Environment& environment, const Calibration& calibration);
