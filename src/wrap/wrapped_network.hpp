#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/scattered_tensors.hpp"
#include "axonn/layers/compare/same_replicas.hpp"
#include "axonn/overlap/step/step_listener.hpp"
#include "axonn/wrap/shard.hpp"
#include "wrap/deferred/recording.hpp"
#include "wrap/leased_parameter.hpp"

namespace axonn {

// A parameter or buffer of a module, as shard() found it.
struct FoundTensor {
  std::vector<std::string> names;  // all under which the module has it
  at::Tensor tensor;
  int unit = 0;
  std::optional<ShardedParameter> layer = {};  // a layer of axonn has it, in place of the module
  bool synchronised = false;                   // a buffer that changes alike on all ranks
  std::optional<DeferredValue> deferred = {};  // it has no memory, or none yet

  // The whole tensor's elements in the order in which they are stored.
  at::Tensor stored(const at::Tensor& whole) const;
};

// A module's tensors and units: unit 0 is the root, others are of Unit and Sequentials' children.
struct FoundModule {
  std::vector<FoundTensor> trained;  // those of layers last
  std::vector<FoundTensor> frozen;   // sharded too, without gradients
  std::vector<FoundTensor> empty;    // parameters without elements
  std::vector<FoundTensor> buffers;
  std::vector<std::string> units = {"the module"};  // names
};

// A wrapped module: its parameters come, compute, hand over their gradients, and go.
class WrappedNetwork final : public StepListener, public std::enable_shared_from_this<WrappedNetwork> {
 public:
  // Every rank of the grid constructs it. The values are already the same on all of them, or
  // deferred: their tensors lie on the device, those of parameters without memory.
  WrappedNetwork(Context& context, FoundModule found, const ShardOptions& options);

  const std::vector<at::Tensor>& local();
  const std::vector<std::string>& names() const { return names_; }
  const Parameters& parameters() const { return parameters_; }
  const Parameters& frozen() const { return frozen_; }
  void frozen_written();  // their master weights have changed
  const FoundModule& found() const { return found_; }
  Context& context() const { return context_; }
  bool checks_layouts() const { return checks_layouts_; }

  // The unit's parameters are whole until as many calls of leave().
  void enter(int unit);
  void leave(int unit);
  void begin_forward(int unit);  // enter() for a call of the unit
  // The inputs of one forward of a unit whose gradients backward has not computed.
  struct Inputs {
    int all = 0;
    int left = 0;  // 0 until backward reaches the unit
  };
  std::shared_ptr<Inputs> watch(int unit, const std::vector<const at::Tensor*>& inputs);
  // Backward has reached a forward of the unit. It leaves the unit with the unit's last gradient
  // and the last one of these inputs.
  void begin_backward(int unit, Inputs& inputs);
  void arrived(int parameter);  // autograd has a gradient
  void check_own_memory(int unit, const at::Tensor& output) const;
  int64_t step() const;
  void check_usable(const std::string& name) const;  // UserError where weights may not be current

  // Enters the root outside a step, or with `write_back` all units. The end tells whether what was
  // written is taken over.
  void begin_gathered(bool write_back);
  void end_gathered(bool takes_over);
  void stand_in(bool begins) { stands_in_ = begins; }  // other values in local(), for a while
  // Computes what is deferred, except parameters that are loaded. A collective over the grid.
  void draw_values();
  void values_loaded(const std::vector<std::string>& missing);  // by name, those that a file did not have
  void check_values() const;                                    // UserError if a parameter has no values yet
  // The module is complete: a parameter that comes later is an error of the next step.
  void know(torch::nn::Module& module);
  // Before whatever relies on the weights: a step, gathered(), a save. UserError on the rank on
  // which a parameter was written in vain. Replicas are compared if that is due or `compare`; then
  // it is a collective over the grid, and the UserError comes on all ranks.
  void check_weights(bool compare = false);

  void step_begins() override;
  void step_begun() override;
  void step_ends() override;
  void step_over(bool finished) override;

 private:
  struct Unit {
    std::vector<int> trained, frozen;
    int held = 0;
    bool in_backward = false;
    int missing = 0;  // gradients of parameters until backward leaves it
    int inputs = 0;   // ... and of inputs
  };
  void update_weights();  // from local(), which was perhaps written
  void share_buffers() const;
  std::vector<uint32_t> buffer_versions() const;
  void leave_backward(Unit& unit);
  void leave_if_done(Unit& unit);
  static constexpr int64_t kComparedSteps = 2;  // the first ones
  void check_module() const;
  void compare_weights();
  void compare_gradients();
  std::vector<Replica> replicas(const std::vector<at::Tensor>& held) const;
  std::vector<LeasedParameter*> whole_now();
  void check_unwritten(LeasedParameter& parameter);
  void in_vain(const LeasedParameter& parameter);
  void take_over(const std::vector<bool>& written);
  // The module's values into the master weights, of those that `which` says.
  void take_values(const std::vector<FoundTensor>& found, const Parameters& parameters,
                   const std::function<bool(int)>& which) const;
  void take_value(const FoundTensor& found, const ArenaSlot& slot, const Arena& arena, const at::Tensor& whole) const;

  ContextHandle context_;
  FoundModule found_;
  ShardOptions options_;
  bool checks_layouts_;
  Parameters parameters_, frozen_;
  std::vector<std::string> names_;
  std::vector<LeasedParameter> leased_, leased_frozen_;
  std::vector<Unit> units_;
  std::vector<at::Tensor> local_, gradients_;
  std::vector<at::Tensor> awaited_;        // .grad() of local() in a step: reading it is an error
  std::vector<at::Tensor> not_in_module_;  // .grad() of the module's parameters after a step: likewise
  uint32_t local_version_ = 0;             // when the step began
  std::vector<int> arrived_;               // per parameter, in this step
  std::vector<uint32_t> buffer_versions_;
  int evaluating_ = 0;
  bool stands_in_ = false;
  bool whole_network_ = false;             // gathered with write_back
  std::vector<uint64_t> before_gathered_;  // fingerprints of what was whole then
  std::string in_vain_;                    // a sentence about a parameter that was written
  std::set<std::string> without_values_;   // parameters that no file has given any
  std::weak_ptr<torch::nn::Module> module_;
  std::set<const at::TensorImpl*> known_;  // its parameters
  int64_t finished_ = 0;                   // steps
  bool compare_due_ = true;
  uint64_t first_weights_ = 0;  // a hash
};

// Broadcasts from the grid's first rank, in place, whatever the type. Collective.
void share(Context& context, const std::vector<at::Tensor>& tensors);

}  // namespace axonn
