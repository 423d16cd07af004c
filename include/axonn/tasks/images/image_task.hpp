#pragma once

#include <future>

#include "axonn/data/images/image_data.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/tasks/images/diffusion.hpp"
#include "axonn/tasks/images/image_sampler.hpp"
#include "axonn/tasks/images/time_history.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

struct ImageTaskOptions {
  uint64_t seed = 1;
  bool mirror = true;                 // mirrors half of the images, drawn by sample number
  double class_dropout = 0;           // probability of dropping an image's class, by sample number; for guidance
  ImageSamplingOptions samples = {};  // images drawn by write_samples()
  bool importance = false;            // draw times by importance (time_history.hpp), else uniformly
  // The first images of the held-out source, image i at time i * times / images with its own noise.
  int64_t validation_images = 128;
  int64_t validation_rows = 16;  // images per rank per forward pass while validating
};

// Denoising diffusion on images. The image of sample `number`, its mirroring, whether it keeps its
// class, its time and its noise depend only on (seed, number). With importance, the time also
// depends on the losses of earlier steps, which ranks exchange after each step. A grid whose losses
// round differently may then, in rare cases, draw another time. Another thread prefetches the
// images of the next micro-batch, each rank its own, and draws their noise.
class ImageTask : public TrainTask {
 public:
  // `held_out` may be null. All arguments outlive the task. UserError unless the sources have
  // images of the network's size.
  ImageTask(Context& context, Unet& model, const Diffusion& diffusion, const ImageSource& source,
            const ImageSource* held_out, ImageTaskOptions options);

  TaskWords words() const override { return {.samples = "images", .terms = "images", .short_terms = "images"}; }
  int64_t tokens_per_sample() const override { return 1; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;
  void prefetch(int64_t first, int64_t count) override;
  // Images, times and noise; classes, if the network has some; weights, with importance.
  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override;
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override;
  std::optional<double> validate() override;
  std::string why_no_validation() const override;
  std::string_view host_work() const override;
  void after_step() override;
  // samples/step-000500.png
  std::vector<std::filesystem::path> write_samples(const std::filesystem::path& run_directory, int64_t step) override;
  std::vector<CheckpointTensor> state() const override;

 private:
  struct Images {
    at::Tensor clean;    // (count, height, width, 3) in [-1, 1], fp32
    at::Tensor classes;  // (count) int64
    at::Tensor noise;    // as `clean`, of working_type(); undefined: the device draws it
  };
  struct Observed {
    int64_t first;
    at::Tensor times, losses;  // (count)
  };
  // Reads nothing that changes, as a thread of prefetch() calls it. Noise of a GPU is drawn later.
  Images load(int64_t first, int64_t count, c10::Device noise_on) const;
  Images take(int64_t first, int64_t count);
  at::ScalarType working_type() const;  // type of images, noise and losses
  at::Tensor noise(uint64_t seed, std::string_view purpose, int64_t first, const at::Tensor& images) const;
  std::vector<at::Tensor> inputs_of(const Images& images, const at::Tensor& times) const;
  at::Tensor losses(const std::vector<at::Tensor>& inputs);

  Context& context_;
  Unet& model_;
  const Diffusion& diffusion_;
  const ImageSource& source_;
  const ImageSource* held_out_;
  ImageTaskOptions options_;
  TimeHistory history_;
  std::vector<Observed> observed_;  // losses of this step, only with importance
  struct Ahead {
    int64_t first, count;
    std::future<Images> images;
  };
  std::vector<Ahead> ahead_;  // last member: its threads use the others
};

}  // namespace axonn
