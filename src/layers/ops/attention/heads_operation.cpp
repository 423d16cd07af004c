#include "layers/ops/attention/heads_operation.hpp"

#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace axonn {
namespace {

std::vector<Tensor> views_of(const Tensor& all /* (batch, sequence, q + k + v, f) */, std::array<int64_t, 3> heads) {
  std::vector<Tensor> views;
  int64_t first = 0;
  for (const int64_t count : heads) {
    views.push_back(all.narrow(2, first, count));
    first += count;
  }
  return views;
}

class HeadsOperation : public TensorOperation {
 public:
  HeadsOperation(std::array<int64_t, 3> heads, HeadsRotation rotation)
      : heads_(heads), rotation_(std::move(rotation)) {}
  std::string name() const override { return "split_heads"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    const Tensor& qkv = inputs[0];
    sizes_ = qkv.sizes().vec();
    const int64_t all = heads_[0] + heads_[1] + heads_[2];
    const int64_t sequence = c10::multiply_integers(qkv.sizes().slice(1, static_cast<size_t>(qkv.dim()) - 2));
    const Tensor by_head = qkv.view({qkv.size(0), sequence, all, qkv.size(-1) / all});
    turn(by_head, /*back=*/false);
    std::vector<Tensor> views = views_of(by_head, heads_);
    // Code that keeps a view sees that its input was overwritten.
    for (const Tensor& view : views)
      torch::autograd::impl::set_version_counter(view, torch::autograd::impl::version_counter(qkv));
    return views;
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const Tensor& first = gradients[0];
    const int64_t all = heads_[0] + heads_[1] + heads_[2];
    if (lie_in_one(gradients)) {
      const Tensor one = first.as_strided({first.size(0), first.size(1), all, first.size(3)}, first.strides());
      turn(one, /*back=*/true);
      return {one.view(sizes_)};
    }
    const Tensor one = at::cat(gradients, 2);
    turn(one, /*back=*/true);
    return {one.view(sizes_)};
  }

 private:
  void turn(const Tensor& all, bool back) const {
    if (rotation_.rotary == nullptr) return;
    for (const auto& [rows, place] : rotation_.runs) {
      std::vector<int64_t> begins = rotation_.first;
      if (begins.empty() && place > 0) begins.assign(static_cast<size_t>(all.size(0)), 0);
      for (int64_t& begin : begins) begin += place;
      const Tensor run = all.narrow(1, rows.begin, rows.size());
      rotation_.rotary->turn(run.narrow(2, 0, heads_[0] + heads_[1]), begins, back);
    }
  }

  // Whether they follow each other in one contiguous tensor.
  bool lie_in_one(const std::vector<Tensor>& gradients) const {
    const Tensor& first = gradients[0];
    const int64_t all = heads_[0] + heads_[1] + heads_[2], features = first.size(3);
    const std::array<int64_t, 4> strides = {first.size(1) * all * features, all * features, features, 1};
    int64_t offset = first.storage_offset();
    for (const Tensor& gradient : gradients) {
      if (!gradient.is_alias_of(first) || gradient.strides() != at::IntArrayRef(strides) ||
          gradient.storage_offset() != offset)
        return false;
      offset += gradient.size(2) * features;
    }
    return true;
  }

  std::array<int64_t, 3> heads_;
  HeadsRotation rotation_;
  std::vector<int64_t> sizes_;
};

}  // namespace

std::unique_ptr<TensorOperation> heads_operation(std::array<int64_t, 3> heads, HeadsRotation rotation) {
  return std::make_unique<HeadsOperation>(heads, std::move(rotation));
}

std::vector<Tensor> heads_in_one(at::IntArrayRef queries, int64_t keys, const at::TensorOptions& options) {
  const int64_t heads = queries[2];
  return views_of(at::empty({queries[0], queries[1], heads + 2 * keys, queries[3]}, options), {heads, keys, keys});
}

std::vector<Tensor> gradients_like(const std::array<Tensor, 3>& heads) {
  const Tensor& queries = heads[0];
  if (queries.size(1) == heads[1].size(1)) return heads_in_one(queries.sizes(), heads[1].size(2), queries.options());
  std::vector<Tensor> gradients;
  for (const Tensor& each : heads) gradients.push_back(at::empty(each.sizes(), each.options()));
  return gradients;
}

}  // namespace axonn
