#pragma once

#include <cstdint>
#include <memory>

#include "axonn/train/batch_plan.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/step/launch_graph.hpp"

namespace axonn {

// Steps, passes and update, as launches of one graph, on one rank. All that changes from one step
// to the next lies on the device and is put there before the launch: the task's inputs, the numbers
// of the samples, the learning rate and the number of the update.
class GraphedStep {
 public:
  // Things made at first use must exist before the graph is recorded: so many steps were taken.
  static constexpr int64_t kStepsBefore = 3;
  struct Settings {
    uint64_t seed = 1;
    double clip = 0;
  };
  // The network outlives it. Its optimizer runs ahead, with fp32 master weights.
  GraphedStep(const TrainedNetwork& network, const BatchPlan& plan, Settings settings,
              std::unique_ptr<LaunchGraph> graph);

  // Of one step, on the device, until the next take().
  struct Numbers {
    PassLosses losses;
    at::Tensor norm;
  };
  // Step number `step`, whole; the first one is recorded too.
  const Numbers& take(int64_t step, double learning_rate);

 private:
  void put_inputs(int64_t step);
  void work();

  const TrainedNetwork& network_;
  BatchPlan plan_;
  Settings settings_;
  std::unique_ptr<LaunchGraph> graph_;
  StagedSamples samples_;
  bool recorded_ = false;
  Numbers numbers_;
};

}  // namespace axonn
