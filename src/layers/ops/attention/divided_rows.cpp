#include "layers/ops/attention/divided_rows.hpp"

#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "layers/ops/attention/heads_operation.hpp"

namespace axonn {
namespace {

constexpr std::string_view kTag = "attention rows";

class TakeRows : public TensorOperation {
 public:
  TakeRows(DividedRows rows, bool causal) : rows_(std::move(rows)), causal_(causal) {}
  std::string name() const override { return "take_rows"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    std::vector<Tensor> taken;
    for (const Range& part : rows_.mine()) {
      const int64_t keys = causal_ ? part.end : rows_.sequence();
      taken.push_back(inputs[0].narrow(1, part.begin, part.size()));
      for (const size_t i : {1, 2}) taken.push_back(inputs[i].narrow(1, 0, keys));
    }
    return taken;
  }

  // Sums and gathers move at the same time.
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    Pending sums = rows_.sum(of_keys_and_values(gradients));
    std::array<Pending, 2> queries = {rows_.gather(gradients[0]), rows_.gather(gradients[3])};
    const int64_t heads = gradients[1].size(2);
    std::vector<int64_t> sizes = gradients[0].sizes().vec();
    sizes[1] = rows_.sequence();
    std::vector<Tensor> all = heads_in_one(sizes, heads, gradients[0].options());
    const Tensor summed = sums.wait();
    for (const size_t i : {0, 1}) all[1 + i].copy_(summed.narrow(2, static_cast<int64_t>(i) * heads, heads));
    for (const size_t part : {0, 1}) rows_.put(all[0], queries[part].wait(), part);
    return all;
  }

 private:
  // This rank's gradients of all keys and values: (batch, sequence, heads of both, f)
  Tensor of_keys_and_values(const std::vector<Tensor>& gradients) const {
    const Tensor& like = gradients[1];
    const int64_t heads = like.size(2);
    const Tensor all = at::zeros({like.size(0), rows_.sequence(), 2 * heads, like.size(3)}, like.options());
    for (const size_t part : {0, 1})
      for (const size_t i : {0, 1}) {
        const Tensor& some = gradients[3 * part + 1 + i];
        all.narrow(1, 0, some.size(1)).narrow(2, static_cast<int64_t>(i) * heads, heads).add_(some);
      }
    return all;
  }

  DividedRows rows_;
  bool causal_;
};

class JoinRows : public TensorOperation {
 public:
  JoinRows(DividedRows rows, std::array<Pending, 2> coming) : rows_(std::move(rows)), coming_(std::move(coming)) {}
  std::string name() const override { return "join_rows"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    std::vector<int64_t> sizes = inputs[0].sizes().vec();
    sizes[1] = rows_.sequence();
    Tensor all = at::empty(sizes, inputs[0].options());
    for (const size_t part : {0, 1}) rows_.put(all, coming_[part].wait(), part);
    return {all};
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    std::vector<Tensor> parts;
    for (const Range& part : rows_.mine()) parts.push_back(gradients[0].narrow(1, part.begin, part.size()));
    return parts;
  }

 private:
  DividedRows rows_;
  std::array<Pending, 2> coming_;
};

}  // namespace

DividedRows::DividedRows(Context& context, Axis axis, int64_t sequence)
    : context_(context),
      axis_(axis),
      sequence_(sequence),
      mine_(query_rows(sequence, context.shape()[axis], context.at()[axis])) {}

Pending DividedRows::gather(const Tensor& part) const {
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes[1] = most_query_rows(sequence_, ranks());
  Tensor sent = part;
  if (part.size(1) < sizes[1]) {
    sent = at::zeros(sizes, part.options());
    sent.narrow(1, 0, part.size(1)).copy_(part);
  }
  return context_->scheduler().all_gather(sent, axis_, kTag);
}

void DividedRows::put(const Tensor& to, const Tensor& gathered, size_t part) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    const Range rows = query_rows(sequence_, ranks(), rank)[part];
    to.narrow(1, rows.begin, rows.size()).copy_(gathered[rank].narrow(1, 0, rows.size()));
  }
}

Pending DividedRows::sum(const Tensor& tensor) const { return context_->scheduler().all_reduce(tensor, axis_, kTag); }

std::unique_ptr<TensorOperation> take_rows(const DividedRows& rows, bool causal) {
  return std::make_unique<TakeRows>(rows, causal);
}

std::unique_ptr<TensorOperation> join_rows(const DividedRows& rows, std::array<Pending, 2> coming) {
  return std::make_unique<JoinRows>(rows, std::move(coming));
}

}  // namespace axonn
