#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"

namespace axonn {

// Moves buffers between two groups of equally many ranks, in slices: ol(RS, fuse(C-P2P), AG), the
// best schedule of CoCoNet's section on pipeline parallelism. Member i of a group owns a slice of
// the buffer and exchanges it with member i of the other group. The buffer is cut into parts. While
// one is reduced, earlier ones are already sent and gathered. So a link carries the buffer once;
// with an all-reduce, C and a send of everything one after the other it carries it twice.
//
// A rank belongs to one group. Both groups make the same calls in the same order, one of them
// sending, the other receiving. Tensors are contiguous, on the CPU, with equal sizes and one dtype
// on all ranks. Calls do not block the host; buffers stay alive until the request is done.
class SlicedTransfer {
 public:
  // `inside`: this rank's group; `across`: this rank and its partner, in the same order on both.
  // Both are for this transfer only.
  SlicedTransfer(std::unique_ptr<Communicator> inside, std::unique_ptr<Communicator> across);

  // ol(RS, fuse(C-P2P)): sums the contributions of this group, computes C at the owner of an
  // element, and sends what C wrote. C is an epilogue as in Communicator::fused(), but its `result`
  // is never null; an empty one sends the sums. Afterwards `contributions` are unspecified.
  Request reduce_and_send(const at::Tensor& contributions, const Epilogue& epilogue, std::string_view tag = {});
  // Sends values that every rank of this group has.
  Request send(const at::Tensor& values, std::string_view tag = {});
  // ol(P2P, AG): every rank of this group gets the whole buffer.
  Request receive(const at::Tensor& values, std::string_view tag = {});

  // A tensor as it is, from this rank to its partner. Ordered with the slices.
  Request send_whole(const at::Tensor& words) { return across_->send(words, partner(), {.priority = Priority::high}); }
  Request receive_whole(const at::Tensor& words) {
    return across_->receive(words, partner(), {.priority = Priority::high});
  }

  const Communicator& inside() const { return *inside_; }
  const Communicator& across() const { return *across_; }

 private:
  struct Part {
    at::Tensor whole, slice;  // this rank owns the slice
    int64_t begin = 0;        // the whole part begins here
  };
  std::vector<Part> cut(const at::Tensor& buffer) const;
  int partner() const { return 1 - across_->rank(); }

  std::unique_ptr<Communicator> inside_, across_;
};

}  // namespace axonn
