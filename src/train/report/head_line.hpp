#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/train/batch_plan.hpp"

namespace axonn {

struct HeadLine {
  std::string_view title;  // "gpt 10.7 M parameters"
  std::string_view data;   // "tinyshakespeare.txt: 1.0 M tokens"
  int64_t steps;
  const BatchPlan& plan;
  std::string_view samples;  // "sequences"
  double gemm_flops;         // best matrix product per second, over all ranks
  std::string linear;        // Scheduler::linear_text()
  std::string update;        // UpdateChoice::to_string()
  bool verbose = false;      // also how products and updates run
};

// Prints the lines that begin a run: the network, its grid and the batch.
void print_head(const Environment& environment, const Context& context, const HeadLine& line);

}  // namespace axonn
