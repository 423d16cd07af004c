#include <axonn/network/unet/unet_memory.hpp>
#include "unet_options.hpp"

#include <algorithm>
#include <filesystem>

#include <axonn/core/error.hpp>
#include <axonn/network/unet/unet_presets.hpp>

namespace {

// Far beyond any network; within them no product of sizes overflows.
constexpr int64_t kMostChannels = 1 << 20;
constexpr int64_t kMostBlocks = 1000;
constexpr int64_t kMostPictures = int64_t{1} << 40;

bool holds_cifar10(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("data_batch") && entry.path().extension() == ".bin") return true;
  return false;
}

}  // namespace

UnetOptions::UnetOptions() {
  run.train.out = "runs/unet";
  run.train.learning_rate = 2e-4;
  run.train.learning_rate_end = 2e-5;
  run.train.weight_decay = 0;
  run.train.beta2 = 0.999;
}

void bind_sampling(axonn::OptionTable& table, axonn::PictureSamplingOptions& sampling) {
  using axonn::SamplingMethod;
  table.add("sample", "count", sampling.count, "pictures drawn");
  table.add("sample", "sampling_steps", sampling.steps, "of the diffusion's times, evenly");
  table.add_choice("sample", "method", sampling.method, {{"ddim", SamplingMethod::ddim}, {"ddpm", SamplingMethod::ddpm}},
                   "ddim: no noise is added on the way");
  table.add("sample", "guidance", sampling.guidance, "classifier-free: how far beyond what the class alone says; 1: none");
  table.add("sample", "class", sampling.only_class, "number of the class that is drawn; -1: all in turn");
}

void UnetOptions::bind(axonn::OptionTable& table) {
  using namespace axonn;
  UnetShape& shape = model.shape;
  table.add("model", "model", preset,
            "preset: unet-tiny, unet-cifar, unet250m, unet500m, unet1b, unet2b, unet4b; other keys of [model] override it");
  table.add("model", "image", shape.image, "height and width of a picture");
  table.add("model", "base", shape.base, "channels of the first level");
  table.add("model", "multipliers", shape.multipliers, "of base, one a level; every level halves the picture");
  table.add("model", "blocks", shape.blocks, "residual blocks a level");
  table.add("model", "attention", shape.attention, "heights at which every residual block is followed by attention");
  table.add("model", "heads", shape.heads, "attention heads");
  table.add("model", "groups", shape.groups, "of every group norm");
  table.add("model", "classes", shape.classes, "classes that the network is told; 0: none, -1: those of the data");
  table.add("model", "scale_shift", shape.scale_shift, "the time scales and shifts the second norm of a block instead of being added");
  table.add("model", "dropout", model.dropout, "before the second convolution of a residual block");

  table.add("diffusion", "times", diffusion.times, "steps from a picture to noise");
  table.add_choice("diffusion", "schedule", diffusion.schedule, {{"linear", NoiseSchedule::linear}, {"cosine", NoiseSchedule::cosine}},
                   "how noise grows");
  table.add_choice("diffusion", "target", diffusion.target, {{"epsilon", DiffusionTarget::epsilon}, {"v", DiffusionTarget::v}},
                   "what the network predicts: the noise, or v");
  table.add_choice("diffusion", "loss", diffusion.loss, {{"simple", DiffusionLoss::simple}, {"hybrid", DiffusionLoss::hybrid}},
                   "hybrid: the variance is learned too");

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

void UnetOptions::apply_preset(const axonn::OptionTable& table) {
  axonn::UnetShape& shape = model.shape;
  if (!preset.empty()) {
    const axonn::UnetShape& named = axonn::find_unet_preset(preset).shape;
    const auto fill = [&](const char* key, auto& field, const auto& value) {
      if (table.source(key) == axonn::OptionTable::Source::fallback) field = value;
    };
    fill("image", shape.image, named.image);
    fill("base", shape.base, named.base);
    fill("multipliers", shape.multipliers, named.multipliers);
    fill("blocks", shape.blocks, named.blocks);
    fill("attention", shape.attention, named.attention);
    fill("heads", shape.heads, named.heads);
    fill("groups", shape.groups, named.groups);
    fill("classes", shape.classes, named.classes);
    fill("scale_shift", shape.scale_shift, named.scale_shift);
    fill("loss", diffusion.loss, named.learned_variance ? axonn::DiffusionLoss::hybrid : axonn::DiffusionLoss::simple);
  }
  shape.learned_variance = diffusion.loss == axonn::DiffusionLoss::hybrid;
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

axonn::MemoryPrediction UnetOptions::predict() const {
  axonn::MemoryOptions memory = run.memory();
  memory.dropout = model.dropout > 0;
  memory.checkpoint_every = model.checkpoint_every;
  return axonn::predict_memory(known_model().shape, run.shape(), memory);
}

void UnetOptions::check() const {
  const axonn::UnetShape& shape = model.shape;
  const auto at_most = [](int64_t value, int64_t most, const char* name) {
    AXONN_CHECK(value <= most, "unet.options", name, " must be at most ", most, ", got ", value);
  };
  at_most(shape.image, kMostChannels, "image");
  at_most(shape.base, kMostChannels, "base");
  at_most(shape.blocks, kMostBlocks, "blocks");
  at_most(shape.classes, kMostChannels, "classes");
  at_most(pictures, kMostPictures, "pictures");
  AXONN_CHECK(pictures >= 1, "unet.options", "pictures must be at least 1, got ", pictures);
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "unet.options", "validation_fraction must be in [0, 1), got ",
              validation_fraction);
  axonn::check_train(run.train);
  axonn::UnetConfig known = model;
  if (known.shape.classes < 0) known.shape.classes = 1;  // those of the data, not known yet; checked again when they are
  axonn::check_unet(known, run.shape());
  if (model.shape.classes >= 0) axonn::check_sampling(samples, known.shape, axonn::Diffusion(diffusion));
  run.check();
}
