#include "axonn/tasks/images/image_task.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/data/images/image_sheet.hpp"
#include "kernels/gpu/placed.hpp"
#include "tasks/sample_file.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using at::Tensor;

void put_pixels(const Tensor& clean, int64_t row, std::span<const uint8_t> pixels, bool mirrored) {
  const int64_t size = clean.size(1), line = 3 * size;
  float* out = clean.mutable_data_ptr<float>() + row * size * line;
  for (int64_t y = 0; y < size; ++y)
    for (int64_t x = 0; x < size; ++x)
      for (int64_t channel = 0; channel < 3; ++channel)
        *out++ =
            static_cast<float>(pixels[static_cast<size_t>(y * line + 3 * (mirrored ? size - 1 - x : x) + channel)]) /
                127.5f -
            1;
}

bool goes_without_class(const ImageTaskOptions& options, int64_t number) {
  return to_uniform(philox(options.seed, static_cast<uint64_t>(number), 0, philox_stream("sample", "class"))[0]) <
         options.class_dropout;
}

}  // namespace

ImageTask::ImageTask(Context& context, Unet& model, const Diffusion& diffusion, const ImageSource& source,
                     const ImageSource* held_out, ImageTaskOptions options)
    : context_(context),
      model_(model),
      diffusion_(diffusion),
      source_(source),
      held_out_(held_out),
      options_(options),
      history_(diffusion.times()) {
  const UnetShape& shape = model.config().shape;
  AXONN_CHECK(shape.channels == 3, "model.unet", "images have 3 channels, the network takes ", shape.channels);
  diffusion.check_output(shape.channels, shape.output_channels());
  AXONN_CHECK(options.class_dropout >= 0 && options.class_dropout <= 1, "model.unet",
              "class_dropout must be in [0, 1], got ", options.class_dropout);
  AXONN_CHECK(options.class_dropout == 0 || shape.classes > 0, "model.unet",
              "class_dropout needs a network with classes, got ", options.class_dropout, " and none");
  for (const ImageSource* each : {&source, held_out}) {
    if (each == nullptr) continue;
    AXONN_CHECK(each->size() == shape.image, "model.unet", "the network takes images of ", shape.image, " x ",
                shape.image, ", got ", each->description());
    AXONN_CHECK(shape.classes == 0 || shape.classes == static_cast<int64_t>(each->classes().size()), "model.unet",
                "the network has ", shape.classes, " classes, got ", each->description());
  }
}

double ImageTask::flops_per_sample() const { return 3 * forward_flops(model_.config().shape); }

double ImageTask::paper_flops_per_sample() const { return 4 * forward_flops(model_.config().shape); }

ImageTask::Images ImageTask::load(int64_t first, int64_t count, c10::Device noise_on) const {
  const int64_t size = source_.size();
  Images images{at::empty({count, size, size, 3}, at::kFloat), at::empty({count}, at::kLong), {}};
  if (noise_on.is_cpu())
    images.noise = sample_noise(options_.seed, "training", first, images.clean.sizes(), noise_on, working_type());
  std::vector<uint8_t> pixels(static_cast<size_t>(size * size * 3));
  for (int64_t i = 0; i < count; ++i) {
    const ImageDraw draw =
        draw_image(static_cast<uint64_t>(first + i), options_.seed, source_.count(), options_.mirror);
    const int64_t image_class = source_.read(draw.index, pixels);
    images.classes.mutable_data_ptr<int64_t>()[i] =
        goes_without_class(options_, first + i) ? Unet::kNoClass : image_class;
    put_pixels(images.clean, i, pixels, draw.mirrored);
  }
  return images;
}

void ImageTask::prefetch(int64_t first, int64_t count) {
  ahead_.push_back(
      {first, count, std::async(std::launch::async, [this, first, count, noise_on = noise_device(context_.options())] {
         return load(first, count, noise_on);
       })});
}

// Returns the prefetched images, or loads them now. Images prefetched before these are dropped.
ImageTask::Images ImageTask::take(int64_t first, int64_t count) {
  const auto found =
      std::ranges::find_if(ahead_, [&](const Ahead& one) { return one.first == first && one.count == count; });
  if (found == ahead_.end()) return load(first, count, noise_device(context_.options()));
  Images images = found->images.get();
  ahead_.erase(ahead_.begin(), found + 1);
  return images;
}

std::string_view ImageTask::host_work() const {
  if (options_.importance) return "importance";
  return model_.config().checkpoint_offload ? "activation-offload" : "";
}

at::ScalarType ImageTask::working_type() const {
  return context_.options().dtype == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor ImageTask::noise(uint64_t seed, std::string_view purpose, int64_t first, const Tensor& images) const {
  return sample_noise(seed, purpose, first, images.sizes(), noise_device(context_.options()), working_type());
}

std::vector<Tensor> ImageTask::inputs_of(const Images& images, const Tensor& times) const {
  std::vector<Tensor> inputs = {images.clean.to(working_type()), times, images.noise};
  if (model_.config().shape.classes > 0) inputs.push_back(images.classes);
  return inputs;
}

// One loss per image: (batch).
Tensor ImageTask::losses(const std::vector<Tensor>& inputs) {
  const Tensor clean = inputs[0], times = inputs[1], noise = inputs[2],
               classes = model_.config().shape.classes > 0 ? inputs[3] : Tensor();
  const Tensor noisy = diffusion_.noised(clean, times, noise).to(context_.options().dtype);
  return diffusion_.losses(model_.forward(noisy, times, classes), clean, times, noise);
}

std::vector<Tensor> ImageTask::inputs(int64_t first, int64_t count) {
  Images images = take(first, count);
  if (!images.noise.defined()) images.noise = noise(options_.seed, "training", first, images.clean);
  const TimeHistory::Draw draw = history_.draw(options_.seed, first, count);
  auto inputs = inputs_of(images, draw.times);
  if (!options_.importance) return inputs;
  inputs.push_back(draw.weights.defined() ? draw.weights.to(inputs[0].scalar_type())
                                          : at::ones({count}, inputs[0].options()));
  observed_.push_back({.first = first, .times = draw.times, .losses = {}});
  return inputs;
}

Tensor ImageTask::loss_sum(const std::vector<Tensor>& inputs) {
  const Tensor each = losses(inputs);
  if (!options_.importance) return each.sum();
  observed_.back().losses = each.detach();
  return (each * inputs.back()).sum();
}

// Every rank records the losses of all ranks in the order of their samples, so the micro-batches do
// not matter.
void ImageTask::after_step() {
  if (observed_.empty()) return;
  std::vector<Tensor> rows;  // (count, 3): number, time, loss
  for (const auto& [first, times, losses] : observed_)
    rows.push_back(at::stack({at::arange(first, first + times.numel(), at::kDouble), times.to(at::kDouble),
                              losses.to(at::kCPU, at::kDouble)},
                             1));
  observed_.clear();
  const Tensor mine = at::cat(rows).flatten();
  auto& others = context_.communicators().on_cpu(kRowAxes);
  const Tensor all = at::empty({mine.numel() * others.size()}, at::kDouble);
  others.all_gather(mine, all).wait();
  std::vector<std::array<double, 3>> sorted(static_cast<size_t>(all.numel() / 3));
  std::memcpy(sorted.data(), all.const_data_ptr<double>(), all.nbytes());
  std::ranges::sort(sorted, {}, [](const auto& row) { return row[0]; });
  for (const auto& [number, time, loss] : sorted) history_.record(static_cast<int64_t>(time), loss);
}

std::vector<CheckpointTensor> ImageTask::state() const {
  if (!options_.importance) return {};
  return {history_.state()};
}

std::vector<std::filesystem::path> ImageTask::write_samples(const std::filesystem::path& run_directory, int64_t step) {
  ImageSamplingOptions options = options_.samples;
  options.stop = [this] { return is_to_stop(); };
  const SampledImages drawn = sample_images(context_, model_, diffusion_, options);
  if (context_.rank() != 0 || !drawn.images.defined()) return {};
  const std::filesystem::path file = sample_file(run_directory, step, ".png");
  save_sheet(file.string(), drawn.images);
  return {file};
}

std::string ImageTask::why_no_validation() const {
  if (held_out_ == nullptr) return "--validation-fraction is 0, so no image is held out";
  return options_.validation_images < 1 ? "--validation-images is below 1, so no image is read" : "";
}

std::optional<double> ImageTask::validate() {
  if (held_out_ == nullptr || options_.validation_images < 1) return std::nullopt;
  const Evaluating evaluating(model_, context_, Phase::evaluate);
  const RowShare share = context_.row_share();
  const int64_t count = std::min(options_.validation_images, held_out_->count()), size = held_out_->size();
  std::vector<uint8_t> pixels(static_cast<size_t>(size * size * 3));
  double sum = 0;
  // Every rank runs the same number of forwards; rows past the last image contribute nothing.
  for (int64_t begin = 0; begin < count; begin += share.groups * options_.validation_rows) {
    if (is_to_stop()) return std::nullopt;
    const int64_t rows = share.rows(count - begin, options_.validation_rows), first = begin + share.mine * rows;
    Images images{at::empty({rows, size, size, 3}, at::kFloat), at::empty({rows}, at::kLong), {}};
    images.noise = noise(0, "validation", first, images.clean);
    for (int64_t i = 0; i < rows; ++i) {
      images.classes.mutable_data_ptr<int64_t>()[i] = held_out_->read(std::min(first + i, count - 1), pixels);
      put_pixels(images.clean, i, pixels, false);
    }
    const Tensor numbers = at::arange(first, first + rows, at::kLong),
                 times = (numbers * diffusion_.times() / count).to(at::kLong);
    auto inputs = inputs_of(images, times.clamp_max(diffusion_.times() - 1));
    for (Tensor& tensor : inputs) tensor = placed(tensor, context_.options().device);
    const Tensor each = losses(inputs);
    sum += each.narrow(0, 0, std::clamp<int64_t>(count - first, 0, rows)).sum().item<double>();
  }
  Tensor total = at::scalar_tensor(sum, at::kDouble).to(context_.options().device);
  total = context_.scheduler().all_reduce(std::move(total), kRowAxes, "validation loss").wait();
  return total.item<double>() / static_cast<double>(count);
}

}  // namespace axonn
