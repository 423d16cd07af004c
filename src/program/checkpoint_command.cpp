#include "axonn/program/checkpoint_command.hpp"

#include <utility>

#include <CLI/CLI.hpp>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/program/resume.hpp"
#include "axonn/program/training_run.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "program.checkpoint";

class OfCheckpoint : public TrainedModel {
 public:
  explicit OfCheckpoint(CheckpointReader reader) : reader_(std::move(reader)) {}
  const CheckpointReader& reader() const { return reader_; }
  const CheckpointState* state() const override { return &reader_.state(); }
  const std::filesystem::path& directory() const override { return reader_.directory(); }
  void load(Context& context, const Parameters& parameters) const override {
    load_weights(context, parameters, reader_);
  }

 private:
  CheckpointReader reader_;
};

}  // namespace

CheckpointCommand::CheckpointCommand(ProgramOptions& saved) : saved_(saved) {
  placement_.bind(here_);
  numerics_.bind(here_);
  communication_.bind(here_);
  flags_.add("checkpoint", "checkpoint", checkpoint_, "the same as MODEL");
}

void CheckpointCommand::add_flags(CLI::App& app) {
  app.add_option("MODEL", model_, "a run's directory (its newest checkpoint), or one checkpoint");
  flags_.add_flags(app);
  here_.add_flags(app, {"run.grid", "run.order", "run.dtype", "run.device", "run.kernels", "overlap.linear_schedule"});
}

std::optional<int> CheckpointCommand::prepare(char**) {
  AXONN_CHECK(model_.empty() || checkpoint_.empty(), kWhere, "MODEL is ", model_, " and --checkpoint is ", checkpoint_,
              "; give one of them");
  if (model_.empty()) model_ = checkpoint_;
  AXONN_CHECK(!model_.empty(), kWhere, "name the model (or --checkpoint): the run's directory or one checkpoint");
  AXONN_CHECK(placement_.grid, kWhere, "--grid must be a grid here: auto is chosen for a training");
  check_flags();
  return std::nullopt;
}

std::unique_ptr<TrainedModel> CheckpointCommand::open(Environment& environment) {
  std::unique_ptr<TrainedModel> other;
  all_ranks_or_none(environment.world(), [&] { other = open_other(model_); });
  if (other != nullptr) return other;
  auto checkpoint = std::make_unique<OfCheckpoint>(CheckpointReader(environment.world(), model_));
  all_ranks_or_none(environment.world(), [&] {
    const CheckpointReader& reader = checkpoint->reader();
    check_same_network(saved_.table, reader);
    saved_.table.read_json(reader.state().configuration, (reader.directory() / "manifest.json").string());
  });
  return checkpoint;
}

int CheckpointCommand::run(Environment& environment) {
  const GridShape& grid = *placement_.grid;
  check_ranks(grid, environment.ranks());
  const std::unique_ptr<TrainedModel> model = open(environment);
  all_ranks_or_none(environment.world(), [&] { check_model(*model, grid); });
  const auto given = [&](const char* key) { return here_.source(key) != OptionTable::Source::fallback; };
  const Precision before = saved_.run.numerics.dtype;
  AXONN_CHECK(model->state() == nullptr || !given("dtype") ||
                  (numerics_.dtype == Precision::fp64) == (before == Precision::fp64),
              kWhere, "a run in ", to_string(before), " is used in ",
              before == Precision::fp64 ? "fp64" : "fp32, bf16 or fp16", ", got --dtype ", to_string(numerics_.dtype),
              "; choose one of these");
  Context context(environment, grid,
                  {.dtype = scalar_type(given("dtype") ? numerics_.dtype : saved_.run.numerics.dtype),
                   .device = numerics_.c10_device(),
                   .kernels = given("kernels") ? numerics_.kernels : saved_.run.numerics.kernels,
                   .order = placement_.order,
                   .forward = {.linear = communication_.forward.linear}});
  use(environment, context, *model);
  return 0;
}

void CheckpointCommand::load(Context& context, torch::nn::Module& network, const TrainedModel& model) const {
  const auto all = [](const std::string&) { return true; };
  const Parameters parameters = context.materialize(network, {.is_loaded = all, .trains = false});
  model.load(context, parameters);
  parameters.arena().release_master();
}

}  // namespace axonn
