#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "axonn/layers/context.hpp"

namespace axonn {

struct TraceOptions {
  std::string file;    // empty: no trace
  int64_t steps = 3;   // recorded, after two that make buffers and learn the order of gathers
  int64_t ranks = 16;  // the first so many of the grid are recorded: viewers fail on files of many gigabytes
};

// What ranks did in a few steps of a run, as a file for ui.perfetto.dev or chrome://tracing. Each rank is a process with a lane for the
// parts of its steps, one for LibTorch's operations as the host ran (CUDA: launched) them, one for the host's waits for collectives, and one
// for every queue of every group that carried one. All ranks' clocks start at one barrier. One trace a process at a time.
//
// The constructor, end_step() and finish() are called by every rank of the grid; UserError when the file cannot be written.
class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `steps_to_come`: of this run. With fewer than two and `options.steps` the last ones are recorded.
  Trace(Context& context, TraceOptions options, int64_t steps_to_come);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void begin_step(int64_t number);
  void add(std::string_view part, Time begin, Time end);  // kept between begin_step() and end_step() of a recorded step
  void end_step();                                        // after the last recorded one the file is written
  void finish();                                          // a run that stopped early: writes what there is

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null without a file
};

}  // namespace axonn
