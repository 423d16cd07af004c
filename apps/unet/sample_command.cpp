#include <cstdio>
#include <optional>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/model/unet_model.hpp>
#include <axonn/train/checkpoint/checkpoint.hpp>
#include <axonn/train/tasks/picture_sampler.hpp>
#include <axonn/train/data/picture_sheet.hpp>
#include <axonn/train/together.hpp>
#include <axonn/train/program/training_run.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

class SampleCommand : public axonn::Command {
 public:
  SampleCommand() {
    options_.bind(table_);
    own_table_.add("sample", "checkpoint", checkpoint_, "run directory (its newest checkpoint) or one checkpoint");
    own_table_.add("sample", "out", out_, "file for the sheet of pictures, PNG");
    own_table_.add("sample", "trajectory", trajectory_, "file for a strip of every picture's way from noise, PNG");
    own_table_.add("sample", "moments", moments_, "pictures of a strip");
    own_table_.add("sample", "columns", columns_, "of the sheet; 0: as many as rows");
    own_table_.add("sample", "sampling_seed", seed_, "of the noise");
  }

  std::string name() const override { return "sample"; }
  std::string help() const override { return "draw pictures with a trained model"; }

  void add_flags(CLI::App& app) override {
    own_table_.add_flags(app);
    table_.add_flags(app, {"sample.count", "sample.sampling_steps", "sample.method", "sample.guidance", "sample.class", "run.grid",
                           "run.order", "run.device"});
  }

  std::optional<int> prepare(char**) override {
    AXONN_CHECK(!checkpoint_.empty(), "unet.sample", "name the checkpoint or the run's directory with --checkpoint");
    AXONN_CHECK(seed_ >= 0 && columns_ >= 0, "unet.sample", "--sampling-seed and --columns must not be negative");
    AXONN_CHECK(moments_ >= 1, "unet.sample", "--moments must be at least 1, got ", moments_);
    axonn::parse_axis_order(options_.run.order);
    options_.run.shape();
    return std::nullopt;
  }

  int run(axonn::Environment& environment) override {
    const axonn::RunOptions& here = options_.run;
    here.check_ranks(environment.ranks());
    std::optional<axonn::CheckpointReader> reader;
    UnetOptions saved;
    axonn::OptionTable saved_table;
    saved.bind(saved_table);
    axonn::succeed_together(environment.world(), [&] {
      reader.emplace(checkpoint_);
      saved_table.read_json(reader->state().configuration, (reader->directory() / "manifest.json").string());
      saved.apply_preset(saved_table);
      axonn::check_unet(saved.model, here.shape());
    });

    auto context_options = here.context();
    context_options.dtype = saved.run.dtype;
    axonn::Context context(environment, here.shape(), context_options);
    axonn::Unet model(context, saved.model);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved.run.train.seed));
    axonn::load_weights(environment, context, parameters, *reader);

    axonn::PictureSamplingOptions sampling = options_.samples;
    sampling.seed = static_cast<uint64_t>(seed_);
    sampling.trajectory = trajectory_.empty() ? 0 : moments_;
    const auto drawn = axonn::sample_pictures(context, model, axonn::Diffusion(saved.diffusion, context.options().device), sampling);
    axonn::succeed_together(environment.world(), [&] {
      if (environment.rank() != 0) return;
      axonn::save_sheet(out_, drawn.pictures, columns_);
      if (!trajectory_.empty()) axonn::save_strip(trajectory_, drawn.trajectory);
    });
    if (environment.rank() == 0) std::printf("%lld pictures in %s\n", static_cast<long long>(sampling.count), out_.c_str());
    return 0;
  }

 private:
  UnetOptions options_;
  axonn::OptionTable table_;
  axonn::OptionTable own_table_;
  std::string checkpoint_, out_ = "samples.png", trajectory_;
  int64_t moments_ = 8, columns_ = 0, seed_ = 1;
};

}  // namespace

std::unique_ptr<axonn::Command> make_sample_command() { return std::make_unique<SampleCommand>(); }
