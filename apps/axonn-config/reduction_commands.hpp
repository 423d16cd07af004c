#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

// What can be said of a reduction over some axes of a parallelism matrix.
struct ReductionFlags {
  std::string matrix;  // rows are axes, columns levels, outermost first
  std::vector<int> reduce;
  std::string machine = "perlmutter";
  std::string bytes = "1G";
  std::string algorithm = "ring";
  std::string collapse = "hardware";
  bool json = false;

  std::string program;  // simulate; empty: one all-reduce

  std::string language = "full";  // synthesize
  std::string goal = "all-reduce";
  int limit = 4;
  int top = 10;

  void add_to_simulate(CLI::App& app);
  void add_to_synthesize(CLI::App& app);

 private:
  void add_common(CLI::App& app);
};

int run_simulate(const ReductionFlags& flags);    // seconds of one program, step by step
int run_synthesize(const ReductionFlags& flags);  // every program, the fastest first
