#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"

namespace axonn {

struct HeadLine {
  const RunIdentity& identity;
  const TrainConfig& config;
  int64_t first_step;  // steps done before
  const BatchPlan& plan;
  std::string_view samples;  // "sequences"
  double gemm_flops;         // best matrix product per second, over all ranks
  std::string linear;        // Scheduler::linear_text()
  std::string update;        // UpdateChoice::to_string()
};

// Prints the lines that begin a run: network, grid and data; batch; learning rate; files. With
// TrainConfig::verbose also how products and updates run.
void print_head(const Environment& environment, const Context& context, const HeadLine& line);

}  // namespace axonn
