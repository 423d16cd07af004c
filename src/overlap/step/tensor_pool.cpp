#include "axonn/overlap/step/tensor_pool.hpp"

#include <utility>

#include <ATen/ops/empty.h>

namespace axonn {

at::Tensor TensorPool::take(int64_t numel, const at::TensorOptions& options) {
  const auto fits = [&](const at::Tensor& buffer) {
    return buffer.numel() >= numel && buffer.dtype() == options.dtype() && buffer.device() == options.device();
  };
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (fits(*it) && (best == free_.end() || it->numel() < best->numel())) best = it;
  if (best == free_.end()) {
    ++allocations_;
    auto made = at::empty({numel}, options);
    bytes_ += static_cast<int64_t>(made.nbytes());
    return made;
  }
  at::Tensor taken = std::move(*best);
  free_.erase(best);
  return taken;
}

void TensorPool::give_back(at::Tensor buffer) { free_.push_back(std::move(buffer)); }

}  // namespace axonn
