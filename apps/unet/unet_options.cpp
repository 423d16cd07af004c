#include <axonn/network/unet/unet_memory.hpp>
#include "unet_options.hpp"

#include <algorithm>
#include <filesystem>

#include <axonn/core/error.hpp>
#include <axonn/network/unet/unet_presets.hpp>
#include <axonn/perfmodel/network_options.hpp>

namespace {

constexpr int64_t kMostPictures = int64_t{1} << 40;

bool holds_cifar10(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("data_batch") && entry.path().extension() == ".bin") return true;
  return false;
}

}  // namespace

void bind_sampling(axonn::OptionTable& table, axonn::PictureSamplingOptions& sampling) {
  table.add("sample", "count", sampling.count, "pictures drawn");
  table.add("sample", "sampling_steps", sampling.steps, "of the diffusion's times, evenly");
  table.add("sample", "method", sampling.method, "ddim: no noise is added on the way");
  table.add("sample", "guidance", sampling.guidance, "classifier-free: how far beyond what the class alone says; 1: none");
  table.add("sample", "class", sampling.only_class, "number of the class that is drawn; -1: all in turn");
}

UnetOptions::UnetOptions() {
  run.train.out = "runs/unet";
  run.train.optimizer.learning_rate = 2e-4;
  run.train.learning_rate_end = 2e-5;
  run.train.optimizer.weight_decay = 0;
  run.train.optimizer.beta2 = 0.999;

  table.add("model", "model", preset, "preset: " + axonn::preset_names<axonn::UnetShape>() + "; other keys of [model] override it");
  axonn::bind_sizes(table, "model", model.shape, axonn::SizesFor::trainer);
  table.add("model", "dropout", model.dropout, "before the second convolution of a residual block");

  table.add("diffusion", "times", diffusion.times, "steps from a picture to noise");
  table.add("diffusion", "schedule", diffusion.schedule, "how noise grows");
  table.add("diffusion", "target", diffusion.target, "what the network predicts: the noise, or v");
  table.add("diffusion", "loss", diffusion.loss, "hybrid: the variance is learned too");

  table.add("data", "data", data, "'shapes' (drawn on the fly), a directory with CIFAR-10's binary files, or one of PNG and JPEG pictures");
  table.add("data", "pictures", pictures, "how many shapes there are");
  table.add("data", "validation_fraction", validation_fraction, "of the pictures, held out; CIFAR-10 has its own test file");
  table.add("data", "validation_pictures", task.validation_pictures, "of those held out, in a validation");
  table.add("data", "mirror", task.mirror, "half of the pictures are mirrored");
  table.add("data", "class_dropout", task.class_dropout, "share of pictures that go without their class, for guidance when sampling");
  run.bind(table, "pictures");
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its inputs and is run again in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload, "inputs of checkpointed blocks are kept in the host's memory");
  table.add("train", "importance", task.importance, "times whose loss varies more are drawn more often (for --loss hybrid)");
  table.add("train", "sample_every", run.train.sample_every, "steps from one sheet of drawn pictures to the next; 0: never");

  bind_sampling(table, samples);
}

void UnetOptions::apply_preset() {
  using axonn::DiffusionLoss;
  if (!preset.empty()) {
    const axonn::UnetShape& named = axonn::find_unet_preset(preset).shape;
    axonn::fill_from_preset(table, model.shape, named);
    if (table.source("loss") == axonn::OptionTable::Source::fallback)
      diffusion.loss = named.learned_variance ? DiffusionLoss::hybrid : DiffusionLoss::simple;
  }
  model.shape.learned_variance = diffusion.loss == DiffusionLoss::hybrid;
}

axonn::PictureSplit UnetOptions::load_pictures() const {
  const auto split = [&](std::unique_ptr<axonn::PictureSource> all) -> axonn::PictureSplit {
    if (validation_fraction == 0) return {.training = std::move(all), .held_out = nullptr};
    return axonn::hold_out(std::move(all), validation_fraction);
  };
  if (data == "shapes") return split(axonn::make_shapes(model.shape.image, pictures, static_cast<uint64_t>(run.train.seed)));
  AXONN_CHECK(std::filesystem::is_directory(data), "unet.data", "--data must be shapes or a directory, got '", data, "'");
  if (holds_cifar10(data))
    return {.training = axonn::load_cifar10(data, /*test=*/false), .held_out = axonn::load_cifar10(data, /*test=*/true)};
  return split(axonn::load_picture_folder(data, model.shape.image));
}

axonn::UnetConfig UnetOptions::known_model() const {
  axonn::UnetConfig config = model;
  config.shape.classes = std::max<int64_t>(config.shape.classes, 0);
  return config;
}

axonn::MemoryPrediction UnetOptions::predict(const axonn::RunPlan& plan) const {
  axonn::MemoryOptions memory = axonn::memory_options(plan);
  memory.dropout = model.dropout > 0;
  memory.checkpoint_every = model.checkpoint_every;
  return axonn::predict_memory(known_model().shape, plan.grid, memory);
}

void UnetOptions::check(const axonn::GridShape& grid) const {
  AXONN_CHECK(pictures >= 1 && pictures <= kMostPictures, "unet.options", "pictures must be from 1 to ", kMostPictures, ", got ", pictures);
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "unet.options", "validation_fraction must be in [0, 1), got ",
              validation_fraction);
  axonn::UnetConfig known = model;
  if (known.shape.classes < 0) known.shape.classes = 1;  // those of the data, not known yet; checked again when they are
  axonn::check_unet(known, grid);
  if (model.shape.classes >= 0) axonn::check_sampling(samples, known.shape, axonn::Diffusion(diffusion));
}
