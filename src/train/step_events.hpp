#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "axonn/train/report/trace.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/report/metrics.hpp"
#include "train/run_checkpoints.hpp"
#include "train/run_end.hpp"

namespace axonn {

// The work between two steps, each at its interval: replicas, validation, samples, checkpoint. A
// signal during one of them ends the run, and those that follow do what they do at its end. All
// functions are collective; `steps` are done.
class StepEvents {
 public:
  // All of them outlive it.
  StepEvents(const TrainedNetwork& network, const TrainConfig& config, RunEnd& end, RunCheckpoints& checkpoints);

  bool any_due(int64_t steps) const;
  // They belong to the step's line in the metrics.
  void before_line(int64_t steps, StepMetrics& metrics, Trace& trace);
  // A run that is killed during a save resumes with the whole line.
  void save(const TrainStep& step, int64_t steps, Trace& trace);
  // That save() took since the last call: they count in the step after it.
  double take_saving_seconds() { return std::exchange(saving_seconds_, 0); }

 private:
  struct Event {
    const char* name;
    int64_t every;  // steps; 0: never
    bool at_end = false;
  };
  bool due(const Event& event, int64_t steps) const;
  void act(const Event& event, int64_t steps, double* seconds, Trace& trace, const std::function<void()>& action);

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  RunEnd& end_;
  RunCheckpoints& checkpoints_;
  Event replicas_, validation_, samples_, saving_;
  double saving_seconds_ = 0;
};

}  // namespace axonn
