#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace axonn {

// What the line shows. Values that are not known are left out of it.
struct ProgressState {
  int64_t step = 0;   // steps done
  int64_t steps = 0;  // of the run
  double loss = 0;    // nats a token
  std::optional<double> validation_loss;
  double tokens_per_second = 0;       // over the whole grid
  std::string_view terms = "tok";     // what is called a token here
  std::optional<double> utilisation;  // of the best matrix product, 0 to 1
  std::optional<double> hidden;       // share of the communication that is hidden, 0 to 1
  double seconds_left = 0;
};

// "step 140/500 ███████▌      loss 2.31  val 2.40  12.4 k tok/s  41% of GEMM  comm hidden 87%  1:52 left", at most `columns` wide: the bar
// takes what the rest leaves, and is left out when that is little. columns = 0: no bar.
std::string progress_line(const ProgressState& state, int columns);

// The line a person waits with: redrawn in place on a terminal, one line each `log_every` steps (and for the last step) in a file. For rank
// 0.
class Progress {
 public:
  struct Options {
    int64_t steps = 0;       // of the run
    int64_t first_step = 0;  // done before this process began (resumed)
    int64_t log_every = 10;
    double most_seconds = 0;  // after so many the run stops whatever its step; 0: no limit
    bool terminal = false;
    int columns = 80;  // read again at every redraw when `descriptor` is given
    int descriptor = -1;
  };
  // Whether descriptor 1 or 2 is a terminal, and its width.
  static Options for_descriptor(int descriptor, int64_t steps, int64_t first_step, int64_t log_every);

  Progress(std::ostream& out, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `elapsed_seconds` since this process began with first_step + 1; the time left follows from it. state.steps and state.seconds_left are
  // set here.
  void update(ProgressState state, double elapsed_seconds);

  // Takes the line off the terminal, so that something else can be printed; the next update() draws it again.
  void clear();
  // Leaves the last line standing and goes to the next one.
  void finish();

 private:
  void draw(const ProgressState& state);

  std::ostream& out_;
  Options options_;
  bool drawn_ = false;
  double last_drawn_seconds_ = 0;
};

}  // namespace axonn
