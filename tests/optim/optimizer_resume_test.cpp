// Runs that go on from checkpoints of other grids and schedules.
#include <filesystem>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "optim/optimizer_training.hpp"
#include "support/rank_test.hpp"
#include "support/shared_directory.hpp"

namespace axonn {
namespace {

using test::OptimizerTraining, test::SharedDirectory;

struct Form {
  GridShape grid;
  UpdateSchedule schedule;

  std::string name() const { return grid.to_string() + " with " + std::string(to_string(schedule)); }
};

const Form kForms[] = {{{.x = 2, .y = 2}, UpdateSchedule::ar_opt},
                       {{.data = 4}, UpdateSchedule::ar_opt},
                       {{.data = 4}, UpdateSchedule::fuse},
                       {{.z = 2, .data = 2}, UpdateSchedule::rs_opt_ag},
                       {{.x = 2, .z = 1, .data = 2}, UpdateSchedule::fuse},
                       {{.y = 2, .z = 2}, UpdateSchedule::fuse}};
constexpr int64_t kBefore = 2, kAfter = 4;

OptimizerSettings settings_of(const Form& form) {
  return {.schedule = form.schedule, .learning_rate = 1e-2, .ema = 0.5};
}

void save(OptimizerTraining& run, const std::filesystem::path& directory) {
  const CheckpointWriter writer(run.context().grid(), run.context().communicators().on_cpu(AxisSet::all()),
                                {.directory = directory});
  writer.save({.run = "test", .step = kBefore}, run.tensors());
}

void load(OptimizerTraining& run, const std::filesystem::path& directory) {
  const CheckpointReader reader(directory);
  reader.load(run.context().shape(), run.context().at(), run.tensors());
  run.optimizer().state_changed();
  run.optimizer().set_steps_taken(reader.state().step);
}

void expect_equal(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& need,
                  const std::string& what) {
  for (const auto& [name, part] : need)
    EXPECT_TRUE(!part.defined() || at::equal(got.at(name), part)) << what << ": " << name;
}

// On the same grid, the bits of a run that never stopped, whatever the schedules; on other grids,
// its gradients' norms up to rounding.
TEST(OptimizerState, GoesOnOnEveryGridUnderEverySchedule) {
  const SharedDirectory shared;
  std::map<std::string, std::map<std::string, at::Tensor>> whole;
  std::vector<double> norms;
  for (const Form& form : kForms) {
    OptimizerTraining run(form.grid, at::kDouble, settings_of(form));
    for (int64_t i = 0; i < kBefore; ++i) run.step(i);
    save(run, shared / form.name());
    for (int64_t i = kBefore; i < kAfter; ++i) run.step(i);
    whole[form.grid.to_string()] = run.own_parts();
    norms = run.norms();
  }
  for (const Form& saved : kForms)
    for (const Form& form : kForms) {
      OptimizerTraining run(form.grid, at::kDouble, settings_of(form));
      load(run, shared / saved.name());
      for (int64_t i = kBefore; i < kAfter; ++i) run.step(i);
      const std::string what = saved.name() + ", then " + form.name();
      for (size_t i = 0; i < run.norms().size(); ++i) EXPECT_NEAR(run.norms()[i] / norms[kBefore + i], 1, 1e-9) << what;
      if (saved.grid == form.grid) expect_equal(run.own_parts(), whole.at(form.grid.to_string()), what);
    }
}

TEST(OptimizerState, InBf16ResumesWithTheSameBits) {
  const SharedDirectory shared;
  for (const UpdateSchedule schedule : {UpdateSchedule::rs_opt_ag, UpdateSchedule::fuse}) {
    const Form form{{.z = 2, .data = 2}, schedule};
    OptimizerTraining run(form.grid, at::kBFloat16, settings_of(form)),
        resumed(form.grid, at::kBFloat16, settings_of(form));
    for (int64_t i = 0; i < kBefore; ++i) run.step(i);
    save(run, shared / form.name());
    load(resumed, shared / form.name());
    expect_equal(resumed.own_parts(), run.own_parts(), form.name());
    for (int64_t i = kBefore; i < kAfter; ++i) {
      run.step(i);
      resumed.step(i);
    }
    expect_equal(resumed.own_parts(), run.own_parts(), form.name());
  }
}

}  // namespace
}  // namespace axonn
