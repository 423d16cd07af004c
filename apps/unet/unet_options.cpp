#include <axonn/network/unet/unet_memory.hpp>
#include "unet_options.hpp"

#include <algorithm>
#include <filesystem>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/network/unet/unet_presets.hpp>
#include <axonn/perfmodel/network_options.hpp>

namespace {

constexpr int64_t kMostImages = int64_t{1} << 40;

bool holds_cifar10(const std::filesystem::path& directory) {
  std::error_code error;
  auto entry = std::filesystem::directory_iterator(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with("data_batch") && entry->path().extension() == ".bin") return true;
  AXONN_CHECK(!error, "unet.data", "cannot read the directory ", directory.string(), ": ",
              axonn::reason_and_cure(error));
  return false;
}

}  // namespace

void bind_sampling(axonn::OptionTable& table, axonn::ImageSamplingOptions& sampling) {
  table.add("sample", "count", sampling.count, "number of images to draw");
  table.add("sample", "sampling_steps", sampling.steps,
            "number of sampling steps, evenly spaced over the diffusion's times");
  table.add("sample", "method", sampling.method, "sampling method; ddim adds no noise");
  table.add("sample", "guidance", sampling.guidance, "scale of classifier-free guidance; 1: no guidance");
  table.add("sample", "class", sampling.only_class, "number of the class to draw; -1: all in turn");
}

UnetOptions::UnetOptions() {
  run.train.out = "runs/unet";
  run.train.optimizer.learning_rate = 2e-4;
  run.train.learning_rate_end = 2e-5;
  run.train.optimizer.weight_decay = 0;
  run.train.optimizer.beta2 = 0.999;

  table.add("model", "model", preset,
            "preset: " + axonn::preset_names<axonn::UnetShape>() + "; other keys of [model] override it");
  axonn::bind_sizes(table, "model", model.shape, axonn::SizesFor::trainer);
  table.add("model", "dropout", model.dropout, "dropout rate before the second convolution of a residual block");

  table.add("diffusion", "times", diffusion.times, "number of steps from an image to noise");
  table.add("diffusion", "schedule", diffusion.schedule, "noise schedule");
  table.add("diffusion", "target", diffusion.target, "what the network predicts: the noise, or v");
  table.add("diffusion", "loss", diffusion.loss, "loss; hybrid also learns the variance");

  table.add("data", "data", data,
            "'shapes' (drawn on the fly), a directory with CIFAR-10's binary files, or one of PNG and JPEG images");
  table.add("data", "synthetic_images", synthetic_images, "number of images of 'shapes'");
  table.add_former("synthetic_images", "pictures");
  table.add("data", "validation_fraction", validation_fraction,
            "fraction of the images that is held out; CIFAR-10 has its own test file");
  table.add("data", "validation_images", task.validation_images, "number of held-out images per validation");
  table.add_former("validation_images", "validation_pictures");
  table.add("data", "mirror", task.mirror, "mirror half of the images");
  table.add("data", "class_dropout", task.class_dropout,
            "fraction of images trained without their class, for guidance in sampling");
  run.bind(table, "images");
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its inputs and is recomputed in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload,
            "keep inputs of checkpointed blocks in host memory");
  table.for_experts({"train.activation_offload"});
  table.add("train", "importance", task.importance,
            "draw times with a larger variance of the loss more often (for --loss hybrid)");
  table.add("train", "sample_every", run.train.sample_every, "steps between sheets of drawn images; 0: never");

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

axonn::ImageSplit UnetOptions::load_images() const {
  const auto split = [&](std::unique_ptr<axonn::ImageSource> all) -> axonn::ImageSplit {
    if (validation_fraction == 0) return {.training = std::move(all), .held_out = nullptr};
    return axonn::hold_out(std::move(all), validation_fraction);
  };
  if (data == "shapes")
    return split(axonn::make_shapes(model.shape.image, synthetic_images, static_cast<uint64_t>(run.train.seed)));
  std::error_code error;
  AXONN_CHECK(std::filesystem::is_directory(data, error), "unet.data",
              "--data must be shapes or a directory of images that can be read, got '", data, "'", error ? ": " : "",
              error ? axonn::reason_and_cure(error) : "");
  if (holds_cifar10(data))
    return {.training = axonn::load_cifar10(data, /*test=*/false),
            .held_out = axonn::load_cifar10(data, /*test=*/true)};
  return split(axonn::load_image_folder(data, model.shape.image));
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
  AXONN_CHECK(synthetic_images >= 1 && synthetic_images <= kMostImages, "unet.options",
              "synthetic_images must be from 1 to ", kMostImages, ", got ", synthetic_images);
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "unet.options",
              "validation_fraction must be in [0, 1), got ", validation_fraction);
  axonn::UnetConfig known = model;
  // The classes of the data are not known yet. They are checked again later.
  if (known.shape.classes < 0) known.shape.classes = 1;
  axonn::check_unet(known, grid);
  if (model.shape.classes >= 0) axonn::check_sampling(samples, known.shape, axonn::Diffusion(diffusion));
}
