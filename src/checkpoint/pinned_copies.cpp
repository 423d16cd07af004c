#include "checkpoint/pinned_copies.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace axonn {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;

// One contiguous tensor in pieces, each of which goes through one of two pinned buffers.
class Pieces {
 public:
  Pieces(const at::Tensor& tensor, c10::Device device)
      : elements_(tensor.numel()),
        most_(std::max<int64_t>(1, std::min(elements_, kPieceBytes / tensor.element_size()))),
        device_(device),
        buffers_{make(tensor), make(tensor)} {}

  int64_t count() const { return (elements_ + most_ - 1) / most_; }
  at::Tensor of(const at::Tensor& flat, int64_t i) const { return flat.narrow(0, i * most_, size(i)); }
  at::Tensor buffer(int64_t i) const { return buffers_[slot(i)].memory.narrow(0, 0, size(i)); }
  void mark(int64_t i) {
    buffers_[slot(i)].used.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  void wait(int64_t i) { buffers_[slot(i)].used.synchronize(); }  // for the copy of piece i, marked before

 private:
  struct Buffer {
    at::Tensor memory;
    c10::Event used;
  };
  static size_t slot(int64_t i) { return static_cast<size_t>(i % 2); }
  int64_t size(int64_t i) const { return std::min(most_, elements_ - i * most_); }
  Buffer make(const at::Tensor& tensor) const {
    return {at::empty({most_}, tensor.options().device(at::kCPU).pinned_memory(true)), c10::Event(device_.type())};
  }

  int64_t elements_, most_;
  c10::Device device_;
  std::array<Buffer, 2> buffers_;
};

}  // namespace

// While a piece comes, the host copies the one before.
at::Tensor copied_to_host(const at::Tensor& tensor) {
  const at::Tensor from = tensor.detach().contiguous().view(-1),
                   result = at::empty(tensor.sizes(), tensor.options().device(at::kCPU)), to = result.view(-1);
  Pieces pieces(from, from.device());
  for (int64_t i = 0; i <= pieces.count(); ++i) {
    if (i < pieces.count()) {
      pieces.buffer(i).copy_(pieces.of(from, i), /*non_blocking=*/true);
      pieces.mark(i);
    }
    if (i == 0) continue;
    pieces.wait(i - 1);
    pieces.of(to, i - 1).copy_(pieces.buffer(i - 1));
  }
  return result;
}

void copy_to_device(const at::Tensor& host, const at::Tensor& place) {
  const at::Tensor from = host.contiguous().view(-1), to = place.view(-1);
  Pieces pieces(from, place.device());
  for (int64_t i = 0; i < pieces.count(); ++i) {
    if (i >= 2) pieces.wait(i - 2);
    pieces.buffer(i).copy_(pieces.of(from, i));
    pieces.of(to, i).copy_(pieces.buffer(i), /*non_blocking=*/true);
    pieces.mark(i);
  }
  for (int64_t i = std::max<int64_t>(0, pieces.count() - 2); i < pieces.count(); ++i) pieces.wait(i);
}

}  // namespace axonn
