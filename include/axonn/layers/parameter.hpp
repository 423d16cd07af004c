#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

class Arena;
class GatheredWeight;
class NetworkSchedule;
class Scheduler;
struct ArenaSlot;
struct ArenaTypes;

// Value of an element before training. It depends only on (seed, parameter name, global element
// index), so every grid starts with the same values.
struct Initial {
  enum class Kind { zeros, ones, normal, uniform } kind = Kind::zeros;
  double width = 0;  // normal: the standard deviation; uniform: the range is [-width, width)

  static Initial zeros() { return {}; }
  static Initial ones() { return {.kind = Kind::ones}; }
  static Initial normal(double deviation) { return {.kind = Kind::normal, .width = deviation}; }
  static Initial uniform(double width) { return {.kind = Kind::uniform, .width = width}; }
};

// Handle of one trainable tensor of the whole network. This rank stores a range of it. Copies share
// the parameter. It has neither a name nor memory before Context::materialize.
class ShardedParameter {
 public:
  struct Options {
    ShardSpec spec;
    Initial initial;
    bool decay = true;  // weight decay: on for matrices, off for vectors
    int bundle = -1;    // those of one number move over Z together (Arena::Entry); -1: with no others
  };
  explicit ShardedParameter(Options options);

  const Options& options() const { return state_->options; }
  const ShardSpec& spec() const { return state_->options.spec; }
  const std::string& name() const { return state_->name; }  // "h.0.attn.qkv.weight"; empty before materialize
  bool materialized() const { return state_->arena != nullptr; }
  bool same_as(const ShardedParameter& other) const { return state_ == other.state_; }
  bool trained() const { return state_->shard.requires_grad(); }  // false: frozen, it gets no gradient

  // This rank's range, flattened. It is a leaf that requires a gradient but never gets .grad: the
  // schedule collects its gradient. Only the optimizer writes it.
  const at::Tensor& shard() const { return state_->shard; }
  // Valid after Step::finish. UserError while an optimizer's schedule reduces parts only.
  at::Tensor gradient() const;
  const Arena& arena() const { return *state_->arena; }  // that of the network, or of its frozen parameters
  const ArenaSlot& slot() const;

  // The (X, Y) block, gathered over Z. Every rank of the Z group calls it.
  GatheredWeight gathered() const;
  // The forward uses under autograd, and the gradient of each: `write` stores it, or adds it. Both
  // do nothing for a frozen parameter.
  void count_use() const;
  void reduce(const std::function<void(const at::Tensor& block, bool add)>& write) const;
  Scheduler& scheduler() const;
  std::shared_ptr<Scheduler> kept_scheduler() const;  // it outlives its context

 private:
  friend class Parameters;
  struct State {
    Options options;
    std::string name;
    std::shared_ptr<Arena> arena;
    std::shared_ptr<NetworkSchedule> schedule;  // the scheduler's schedule of this arena
    size_t index = 0;
    at::Tensor shard;
  };
  std::shared_ptr<State> state_;
};

// The first values of parameters: draws from a seed, or zeros where they are loaded next.
struct InitialDraw {
  uint64_t seed = 0;
  std::function<bool(const std::string& name)> is_loaded;
};

// All parameters of one network, in one arena.
class Parameters {
 public:
  // `named` holds the final names. With a null `scheduler` it only lays out, without memory
  // (--dry-run). Without `trained` they get no gradients.
  Parameters(std::vector<std::pair<std::string, ShardedParameter>> named, const Grid& grid, int rank, ArenaTypes types,
             c10::Device device, const InitialDraw& draw, const std::shared_ptr<Scheduler>& scheduler,
             bool trained = true);

  const std::vector<ShardedParameter>& list() const { return list_; }
  // Also of frozen ones; UserError suggesting the nearest name.
  const ShardedParameter& operator[](const std::string& name) const;
  Arena& arena() const { return *arena_; }
  NetworkSchedule& schedule() const { return *schedule_; }
  const Grid& grid() const { return grid_; }
  int64_t global_numel() const;  // elements of all of them, without padding

  // Those of the network that are not trained, in an arena of their own; null: none.
  const Parameters* frozen() const { return frozen_.get(); }
  // The parameters of a network without some, and those.
  Parameters with_frozen(Parameters frozen) const;

 private:
  Grid grid_;
  std::vector<ShardedParameter> list_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<NetworkSchedule> schedule_;  // null when laid out without memory
  std::shared_ptr<const Parameters> frozen_;
};

// Values of `range` of the flattened block, computed in fp64 and rounded to `dtype`.
at::Tensor initial_values(const std::string& name, const Initial& initial, const ShardSpec& spec,
                          const GridShape& shape, const Coordinate& at, Range range, uint64_t seed,
                          at::ScalarType dtype);

}  // namespace axonn
