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
  int64_t steps = 3;   // recorded steps, after two steps that allocate buffers and learn the order of gathers
  int64_t ranks = 16;  // number of ranks recorded, from the first: viewers fail on files of many gigabytes
};

// Records a few steps of a run in a file for ui.perfetto.dev or chrome://tracing. Each rank is a
// process with these lanes: the parts of its steps, LibTorch's operations as the host ran them
// (CUDA: launched them), the host's waits for collectives, one lane for each queue of each group
// that carried a collective, and with CUDA one for each stream of the GPU. The clocks of all ranks
// start at one barrier. At most one trace per process at a time.
//
// Every rank of the grid calls the constructor, end_step() and finish(). They throw UserError if
// the file cannot be written.
class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `steps_to_come`: steps left in this run. If these are fewer than two plus `options.steps`, the
  // last ones are recorded.
  Trace(Context& context, TraceOptions options, int64_t steps_to_come);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void begin_step(int64_t number);
  void add(std::string_view part, Time begin, Time end);  // kept between begin_step() and end_step() of a recorded step
  void end_step();                                        // writes the file after the last recorded step
  void finish();                                          // for a run that stops early: writes the recorded steps

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null if no file is given
};

}  // namespace axonn
