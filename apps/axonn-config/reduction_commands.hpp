#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <axonn/config/option_table.hpp>
#include <axonn/perfmodel/reduction/reduction_simulator.hpp>
#include <axonn/perfmodel/reduction/reduction_synthesis.hpp>

// Flags that describe a reduction over some axes of a parallelism matrix.
class ReductionFlags {
  axonn::OptionTable table_{axonn::OptionTable::Use::flags};

 public:
  std::string matrix;  // rows are axes, columns are levels, outermost first
  std::vector<int64_t> reduce;
  std::string machine = "perlmutter";
  int64_t bytes = int64_t{1} << 30;
  axonn::CollectiveAlgorithm algorithm = axonn::CollectiveAlgorithm::ring;
  axonn::AxisCollapse collapse = axonn::AxisCollapse::hardware;
  bool copy = false;  // a program first copies its input
  bool json = false;

  std::string program;  // simulate; empty: one all-reduce

  axonn::SynthesisLanguage language = axonn::SynthesisLanguage::full;  // synthesize
  axonn::ReductionGoal goal = axonn::ReductionGoal::all_reduce;
  int64_t limit = 4;
  int64_t top = 10;

  ReductionFlags();
  void add_to_simulate(CLI::App& app) { add(app, "simulate"); }
  void add_to_synthesize(CLI::App& app) { add(app, "synthesize"); }

 private:
  void add(CLI::App& app, std::string_view section);
};

int run_simulate(const ReductionFlags& flags);    // prints the seconds of one program, step by step
int run_synthesize(const ReductionFlags& flags);  // prints every program, fastest first
