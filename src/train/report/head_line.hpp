#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/train/batch_plan.hpp"

namespace axonn {

// The schedule and the axes over which layers have sums: "overlap over x and y", "overlap (x = y =
// 1: no layer has a sum)", or what auto is on this grid: "auto (over x: overlap from 256k, else
// mm-ar-c)". Every rank calls it: it may make communicators.
std::string linear_schedules(Context& context);

struct HeadLine {
  std::string_view title;  // "gpt 10.7 M parameters"
  std::string_view data;   // "tinyshakespeare.txt: 1.0 M tokens"
  int64_t steps;
  const BatchPlan& plan;
  std::string_view samples;  // "sequences"
  double gemm_flops;         // best matrix product per second, over all ranks
  std::string linear;        // linear_schedules()
  std::string update;        // UpdateChoice::to_string()
  bool verbose = false;      // also how products and updates run
};

// Prints the lines that begin a run: the network, its grid and the batch.
void print_head(const Environment& environment, const Context& context, const HeadLine& line);

}  // namespace axonn
