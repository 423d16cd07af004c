#pragma once

#include <future>

#include "axonn/data/images/picture_data.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/unet/diffusion.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/model/unet/picture_sampler.hpp"
#include "axonn/model/unet/time_history.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

struct UnetTaskOptions {
  uint64_t seed = 1;
  bool mirror = true;                   // half of the pictures, drawn by sample number
  double class_dropout = 0;             // probability that a training picture goes without its class, drawn by sample number; for guidance
  PictureSamplingOptions samples = {};  // that write_samples() draws
  bool importance = false;              // times by importance, see time_history.hpp; else uniform
  int64_t validation_pictures = 128;  // the first ones of the held-out source, picture i at time i * times / pictures with noise of its own
  int64_t validation_rows = 16;       // pictures a rank a forward while validating
};

// Denoising diffusion on pictures. Which picture sample `number` is, whether it is mirrored, whether it keeps its class, its time and its
// noise depend on (seed, number) alone; with importance, the time also on the losses of the steps before, which ranks exchange after each
// step, so that a grid whose losses round otherwise may in rare cases draw another time. The pictures of the coming micro-batch are read by
// another thread meanwhile, each rank its own.
class UnetTask : public TrainTask {
 public:
  // `held_out` may be null. All arguments outlive the task; the sources must have pictures of the network's size (UserError).
  UnetTask(Context& context, Unet& model, const Diffusion& diffusion, const PictureSource& source, const PictureSource* held_out,
           UnetTaskOptions options);

  TaskWords words() const override { return {.samples = "pictures", .terms = "pictures", .short_terms = "pictures"}; }
  int64_t tokens_per_sample() const override { return 1; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;
  void prefetch(int64_t first, int64_t count) override;
  at::Tensor loss_sum(int64_t first, int64_t count) override;
  std::optional<double> validate() override;
  void after_step() override;
  void write_samples(const std::filesystem::path& run_directory, int64_t step) override;  // samples/step-000500.png
  std::vector<CheckpointTensor> state() const override;

 private:
  struct Pictures {
    at::Tensor clean;    // (count, height, width, 3) in [-1, 1], fp32
    at::Tensor classes;  // (count) int64
  };
  struct Observed {
    int64_t first;
    at::Tensor times, losses;  // (count)
  };
  Pictures load(int64_t first, int64_t count) const;
  Pictures take(int64_t first, int64_t count);
  at::Tensor losses(const Pictures& pictures, const at::Tensor& times, const at::Tensor& noise);

  Context& context_;
  Unet& model_;
  const Diffusion& diffusion_;
  const PictureSource& source_;
  const PictureSource* held_out_;
  UnetTaskOptions options_;
  TimeHistory history_;
  std::vector<Observed> observed_;  // in this step, with importance
  struct Ahead {
    int64_t first, count;
    std::future<Pictures> pictures;
  };
  std::vector<Ahead> ahead_;  // last, as what loads them uses the others
};

}  // namespace axonn
