#include "train/step_events.hpp"

#include "axonn/train/checkpoint_tensors.hpp"
#include "train/replicas.hpp"
#include "train/report/step_timer.hpp"

namespace axonn {

StepEvents::StepEvents(const TrainedNetwork& network, const TrainConfig& config, RunEnd& end,
                       RunCheckpoints& checkpoints)
    : network_(network),
      config_(config),
      end_(end),
      checkpoints_(checkpoints),
      replicas_{.name = "replicas", .every = config.check_replicas},
      validation_{.name = "validation", .every = config.validate_every, .at_end = true},
      samples_{.name = "samples", .every = config.sample_every, .at_end = config.sample_every > 0},
      saving_{.name = "checkpoint", .every = config.save_every, .at_end = config.save_last} {}

bool StepEvents::due(const Event& event, int64_t steps) const {
  return (event.every > 0 && steps % event.every == 0) || (event.at_end && end_.reached(steps));
}

bool StepEvents::any_due(int64_t steps) const {
  for (const Event* event : {&replicas_, &validation_, &samples_, &saving_})
    if (due(*event, steps)) return true;
  return false;
}

void StepEvents::before_line(int64_t steps, StepMetrics& metrics, Trace& trace) {
  act(replicas_, steps, nullptr, trace,
      [&] { check_replicas(network_.context, checkpoint_tensors(network_.parameters, &network_.optimizer), steps); });
  act(validation_, steps, &metrics.seconds.validation, trace, [&] {
    const auto averaged = network_.optimizer.use_average();
    metrics.validation_loss = network_.task.validate();
    if (metrics.validation_loss) metrics.bits_per_byte = network_.task.bits_per_byte(*metrics.validation_loss);
  });
  act(samples_, steps, &metrics.seconds.validation, trace, [&] {
    const auto averaged = network_.optimizer.use_average();
    metrics.samples = network_.task.write_samples(config_.out, steps);
  });
}

void StepEvents::save(const TrainStep& step, int64_t steps, Trace& trace) {
  act(saving_, steps, &saving_seconds_, trace, [&] { checkpoints_.save(step, steps); });
}

void StepEvents::act(const Event& event, int64_t steps, double* seconds, Trace& trace,
                     const std::function<void()>& action) {
  if (!due(event, steps)) return;
  const StepTimer part(trace, event.name, seconds);
  action();
  end_.ask();
}

}  // namespace axonn
