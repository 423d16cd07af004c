#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/optim/ema.hpp"

namespace axonn {

struct UpdateOptions {
  double max_norm = 0;        // gradients are clipped to this norm; 0: never
  double learning_rate = -1;  // for this step; negative: the optimizer's own
  double gradient_scale = 1;  // factor by which the loss was multiplied
  bool poisoned = false;      // loss is not finite; true on one rank stops the update on all of its x, y and z
};

struct UpdateReport {
  double gradient_norm = 0;  // over the whole network, before clipping; the same on every rank
  bool applied = false;      // false: the norm is not finite or a rank was poisoned; nothing changed
};

// Updates the master weights of `parameters`, and from them the weight shards, with their reduced
// gradients. Buffers are flat; each rank updates the elements it stores. Every rank of the grid
// calls step() after Step::finish(), else UserError.
class Optimizer {
 public:
  Optimizer(Context& context, const Parameters& parameters, double learning_rate);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  UpdateReport step(UpdateOptions options = {});

  // From now on keeps an average of the weights ("ema" in state()), starting with the current ones.
  void keep_average(double decay) { average_ = std::make_unique<Ema>(arena_, schedule_, decay); }
  // While the result lives, the network computes with the average. Without an average nothing
  // happens.
  [[nodiscard]] Ema::InUse use_average() { return Ema::InUse(average_.get()); }

  // Per-element state by name ("adam.m"), laid out like the arena's weights. Checkpoints save it
  // beside them.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  int64_t steps_taken() const { return steps_taken_; }
  virtual void set_steps_taken(int64_t steps) { steps_taken_ = steps; }  // to resume

 protected:
  // One contiguous section of the arena whose elements are decayed alike.
  struct Section {
    at::Tensor weights;
    at::Tensor gradients;
    Range range;
    bool decay = false;
  };
  const std::vector<Section>& sections() const { return sections_; }
  Context& context() const { return context_; }
  Arena& arena() const { return arena_; }
  virtual std::vector<std::pair<std::string, at::Tensor>> moments() const = 0;
  virtual void update(double learning_rate, double gradient_factor) = 0;

 private:
  double gradient_norm(bool poisoned);

  Context& context_;
  Arena& arena_;
  NetworkSchedule& schedule_;
  double learning_rate_;
  at::Tensor wide_gradients_;  // in the master weights' type
  std::vector<Section> sections_;
  std::vector<Range> norm_ranges_;  // arena ranges that this rank counts in the norm
  int64_t steps_taken_ = 0;
  std::unique_ptr<Ema> average_;  // null unless keep_average() was called
};

}  // namespace axonn
