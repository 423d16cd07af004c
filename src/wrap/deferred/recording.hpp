#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "axonn/wrap/on_meta.hpp"

namespace axonn {

inline bool is_deferred(const at::Tensor& tensor) { return tensor.is_meta(); }

// The operations of a module's constructors on tensors without memory. Tensors are known by their
// storage, so views and parameters that share one need nothing.
class Recording {
 public:
  explicit Recording(MetaValues initial) : initial_(initial) {}
  MetaValues initial() const { return initial_; }

  // An operation that made or wrote tensors of the device meta. `inputs` as it was called.
  void add(const c10::OperatorHandle& op, const std::vector<c10::IValue>& inputs,
           const std::vector<c10::IValue>& outputs);
  bool has(const at::Tensor& tensor) const;

  // Of these tensors, the order in which replay() has them.
  std::vector<size_t> order(const std::vector<at::Tensor>& wanted) const;
  // Runs the operations on the CPU. `take` gets each tensor of `wanted` when nothing more is done
  // with it, on the CPU; afterwards its memory is freed.
  void replay(const std::vector<at::Tensor>& wanted, const std::function<void(size_t, const at::Tensor&)>& take) const;

 private:
  using Key = const c10::StorageImpl*;
  struct Operation {
    c10::OperatorHandle op;
    std::vector<c10::IValue> inputs, outputs;            // their own views of the storages
    std::vector<Key> used;                               // by inputs and outputs
    std::vector<Key> changed;                            // made or written
    std::vector<std::pair<at::Tensor, uint32_t>> given;  // inputs with memory, and their versions
    at::Tensor generator;  // the default generator's state before it, if something else has set that
  };
  class Memory;  // tensors with memory in the places of those without
  static void run(const Operation& operation, Memory& memory);
  std::vector<bool> needed(const std::vector<at::Tensor>& wanted) const;

  MetaValues initial_;
  std::vector<Operation> operations_;
  std::map<Key, size_t> last_use_;  // the number of an operation; of all storages that one has made
  at::Tensor generator_;            // the state that was seen last
};

// As on_meta() leaves a tensor of its module.
void mark_recorded(const at::Tensor& tensor, std::shared_ptr<const Recording> recording);

// A parameter or buffer that has no memory yet.
struct DeferredValue {
  std::shared_ptr<const Recording> recording;
  at::Tensor tensor;  // on the device meta, for Recording::replay()
};

// Nothing for a tensor that has memory. UserError if it has none and is not as on_meta() left it.
std::optional<DeferredValue> deferred_value(const std::string& name, const at::Tensor& tensor);
// The tensor itself, on `device`: with memory, or without any.
void settle_on(const at::Tensor& deferred, c10::Device device, bool with_memory);

}  // namespace axonn
