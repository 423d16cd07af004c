#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace axonn {

// Values on the progress line. Unknown values are left out.
struct ProgressState {
  int64_t step = 0;   // steps done
  int64_t steps = 0;  // steps of the run
  double loss = 0;    // nats per token
  std::optional<double> validation_loss;
  std::optional<double> best_loss;      // least validation loss so far, or least loss before any validation
  std::optional<double> bits_per_byte;  // bits of the newest validation loss
  double tokens_per_second = 0;         // over the whole grid
  std::string_view terms = "tok";       // short name of the unit, instead of tokens
  std::optional<double> utilisation;    // share of the fastest matrix product, 0 to 1
  std::optional<double> hidden;         // share of the communication that is hidden, 0 to 1
  int64_t tokens = 0;                   // terms of the steps done; 0: not known
  std::optional<double> epoch;          // passes over the data
  double seconds_left = 0;
  std::string end;  // clock_text() of the end of the run; empty: not known
};

// "step 140/500 ███████▌      loss 2.31  val 2.40  best 2.38  12.4 k tok/s  1.2 M tok  1:52 left
// ends 14:05", at most `columns` wide, without colours. The bar takes the remaining width. If there
// is no room for a bar of 8 columns, parts are left out first: epoch, hidden share, utilisation,
// bits per byte, tokens, best, end, in this order. columns = 0: no bar, and all parts.
std::string progress_line(const ProgressState& state, int columns);

// The progress line: redrawn in place on a terminal; in a file, a line every 5 seconds or every
// `log_every` steps, and one for the last step. Only for rank 0.
class Progress {
 public:
  struct Options {
    int64_t steps = 0;        // steps of the run
    int64_t first_step = 0;   // steps done before this process began (resumed)
    int64_t log_every = 0;    // steps between lines in a file; 0: by time
    double most_seconds = 0;  // the run stops after this time, at any step; 0: no limit
    bool terminal = false;
    int columns = 80;  // read again at every redraw when `descriptor` is given
    int descriptor = -1;
  };

  Progress(std::ostream& out, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `elapsed_seconds` is the time since this process began with step first_step + 1; the remaining
  // time is estimated from it. update() sets state.steps, state.seconds_left and state.end.
  void update(ProgressState state, double elapsed_seconds);

  // Removes the line from the terminal, so that other text can be printed. The next update() draws
  // it again.
  void clear();
  // Keeps the last line and starts a new one.
  void finish();

 private:
  void estimate(ProgressState& state, double elapsed_seconds) const;
  bool due(int64_t step, double elapsed_seconds) const;
  void draw(const ProgressState& state);

  std::ostream& out_;
  Options options_;
  bool drawn_ = false;
  double last_seconds_ = 0;  // time of the last line
};

}  // namespace axonn
