#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/wrap/split_plan.hpp"

namespace axonn {

class WrappedNetwork;

// A parameter that got no gradient in a step: an error that names it, or a gradient of zeros. With
// `zero` ranks may use different parameters, but the same units, in the same order: else the job
// ends. All sums then begin at the end of the step, in one order.
enum class Unused : uint8_t { refuse, zero };

// Buffers that a step has changed, such as the statistics of BatchNorm: an error that names the
// buffer, or every step begins with the buffers of the grid's first rank, as in DDP. Those of a
// BatchNorm of axonn::nn change alike on all ranks (nn.hpp).
enum class Buffers : uint8_t { refuse, first_rank };

struct ShardOptions {
  // Children of Sequentials whose parameters are gathered when they compute, and freed afterwards:
  // full names, in which * stands for any text ("blocks.*"). Each takes and returns one tensor.
  // For typed members see unit.hpp. Others are gathered from begin_step() to finish().
  std::vector<std::string> units = {};
  Unused unused = Unused::refuse;
  Buffers buffers = Buffers::refuse;
  // Ranks that must hold the same bits of a weight compare a hash of them: before the first step,
  // after the first two, after every so many, and in every save. After the first two steps they
  // compare gradients too. 0: never. On a GPU whose kernels are not deterministic, ranks of X and Y
  // compare nothing of what they compute alike.
  int64_t check_replicas = 100;
  // parallelize() only: which typed members stay split, or whole, by their names.
  SplitPlan plan = {};
  // For debugging, also by AXONN_CHECK_LAYOUTS=1, the same on all ranks: parallelize() finds what
  // forward computes wrongly with an output that stays split (nn.hpp), which is a UserError of that
  // operation on all ranks. Forward then keeps whole activations, and is several times slower.
  bool check_layouts = false;
};

// The sharded parameters of a plain torch::nn::Module. Copies share them. It stays alive as long as
// the module trains.
class WrappedModule {
 public:
  explicit WrappedModule(std::shared_ptr<WrappedNetwork> network) : network_(std::move(network)) {}

  // This rank's range of each parameter that is trained, flat, for torch::optim. They are leaves,
  // of the master weights' type, and their .grad() is the sum over the grid after Step::finish():
  // that of this step only, whatever was there before. Inside a step, reading .grad() is an error
  // that names the parameter: optimizer.step() comes after finish(). UserError while an optimizer
  // of axonn keeps the master weights.
  const std::vector<at::Tensor>& local() const;
  const std::vector<std::string>& names() const;  // one for each of local(), as in named_parameters()

  // For make_optimizer() and checkpoints of axonn. With an optimizer whose schedule does not keep
  // whole gradients, local() gets no .grad().
  const Parameters& parameters() const;

  struct GatheredOptions {
    // Parameters that are written while it lives keep their new values: those of the grid's first
    // rank, on every grid. Until then all units are whole, too. Between steps only.
    bool write_back = false;
  };
  // While it lives, the module can be called outside a step, such as for evaluation under a
  // NoGradGuard. Every rank of the grid makes it, and calls the same units in the same order. At
  // its beginning and its end it hashes all that is whole (on a GPU it copies it to the host), to
  // notice parameters that are written without `write_back`: the next call of axonn is then a
  // UserError that names one, unless its old values are back.
  class Gathered {
   public:
    Gathered(std::shared_ptr<WrappedNetwork> network, const GatheredOptions& options);
    ~Gathered();
    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

   private:
    std::shared_ptr<WrappedNetwork> network_;
    int exceptions_;
  };
  [[nodiscard]] Gathered gathered(const GatheredOptions& options) const { return {network_, options}; }
  [[nodiscard]] Gathered gathered() const { return {network_, {}}; }

  WrappedNetwork& network() const { return *network_; }

 private:
  std::shared_ptr<WrappedNetwork> network_;
};

// Shards the parameters of any torch::nn::Module over Z, as FSDP2's fully_shard does; ranks that
// differ in Z or data compute different rows of a batch. Values and buffers are those of the grid's
// first rank. A parameter of fewer than 1024 elements lies on every rank. Frozen parameters are
// sharded too, and have no gradients. In a step, parameters are whole while their unit computes,
// and gathered, cached and reduced as the OverlapPolicy says:
//
//   auto parameters = axonn::shard(context, *net, {.units = {"blocks.*"}});
//   torch::optim::AdamW optimizer(parameters.local(), 1e-3);
//   for (...) {
//     auto step = context.begin_step();
//     (loss_sum_of_my_rows / rows_of_all_ranks).backward();
//     step.finish();
//     axonn::clip_grad_norm_(parameters, 1.0);
//     optimizer.step();
//   }
//
// Each backward() is a micro-batch: begin_step({.micro_batches = n}). Ranks of X and Y do the same
// work. With a context of bf16 or fp16, the module's fp32 parameters become bf16 or fp16, and
// local() is fp32. Children of Sequentials that are units stay the modules that they were; only
// Sequential::at<T>(i) and ptr<T>(i) throw for them: write net->blocks[i]->as<T>().
//
// Outside a step the parameters are not there. Whoever reads them gets LibTorch's error with a
// sentence that names the parameter: forward, to(), clone(), torch::save(). Only local(), the
// functions of state_dict.hpp and gathered({.write_back = true}) change them: a parameter of the
// module that was written otherwise, in a step or not, is a UserError of the next call that names
// it, on every grid. So is one that was registered after shard(). Not noticed are writes past
// LibTorch's version counters (data(), raw pointers), except where gathered() says so; and
// optimizers whose update mixes elements (LBFGS, Adafactor), which compute on ranges. An optimizer
// made from module.parameters() updates nothing, which is a warning after two steps. A unit must
// not return a view of a parameter, nor keep a detach()ed one for backward.
//
// Every rank of the grid calls it with the same module. UserError on all ranks that names the
// parameter which is a view, not contiguous, sparse, complex, of another type or device than the
// context, wrapped before, or replaced in its module without the registry (a stale tie); that names
// the unit which does not exist or is in no Sequential, or the weight of an Embedding with
// max_norm, which its forward changes, or the BatchNorm whose statistics are of another type than
// its weight in this context; or if nothing is trained.
WrappedModule shard(Context& context, torch::nn::Module& module, const ShardOptions& options = {});

// Scales the gradients of local() to this norm at most, as torch::nn::utils::clip_grad_norm_ does.
// Returns the norm before, over the whole network, the same on every rank. Every rank of the grid
// calls it, after Step::finish(). UserError if a gradient is missing.
double clip_grad_norm_(const WrappedModule& parameters, double max_norm);

}  // namespace axonn
