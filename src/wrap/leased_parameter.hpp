#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "axonn/layers/parameter.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gathered_weight.hpp"

namespace axonn {

// Frees the tensor's memory. Reading it is an error with this text from now on.
c10::Storage make_absent(const at::Tensor& tensor, const std::string& error);

// A parameter of a plain module whose memory is a gathered weight on loan. The tensor stays the
// same: only the memory behind its storage comes and goes, which views of it in autograd's graph
// share. While nothing is on loan, the tensor has another storage, and reading it is an error that
// names it. A weight that is not sharded over Z lies in the arena for good.
class LeasedParameter {
 public:
  // `whole` has the values that `shard` has already taken, and loses its memory.
  LeasedParameter(at::Tensor whole, ShardedParameter shard, const Arena& arena);

  const std::string& name() const { return shard_.name(); }
  const ShardedParameter& shard() const { return shard_; }
  const at::Tensor& tensor() const { return tensor_; }
  void lend(GatheredWeight weight);  // the block, its memory until drop()
  void drop();
  // Graphs of this step that somebody keeps cannot read the parameter any more: an error that says
  // so.
  void end_step();
  // Whether the tensor's memory is what this object gave it.
  bool in_place() const;
  bool holds(const at::Tensor& other) const;  // in the memory of this parameter
  // Graphs of earlier steps that have kept the parameter refuse to use it, since its values change.
  void outdate() {
    tensor_.unsafeGetTensorImpl()->bump_version();
    settle();
  }
  // Whether the module's tensor was written since it was lent, outdated or settled.
  bool written() const { return static_cast<uint32_t>(tensor_._version()) != version_; }
  void settle() { version_ = static_cast<uint32_t>(tensor_._version()); }
  bool lies_in_arena() const { return !leased_; }
  // Adds the gradient to the step's sum, zeros if it is undefined. UserError if it is sparse.
  void reduce(const at::Tensor& gradient, NetworkSchedule& schedule) const;

 private:
  at::Tensor tensor_;
  ShardedParameter shard_;
  bool leased_;
  uint32_t version_ = 0;
  c10::Storage whole_, absent_;
};

}  // namespace axonn
