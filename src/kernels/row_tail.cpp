#include "kernels/row_tail.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/error.hpp"
#include "kernels/gpu/tail_rows.hpp"

namespace axonn {
namespace {

using coconet::ElementType;
using coconet::PointwiseKernel;
using coconet::PointwiseOp;
using coconet::StageChain;

ElementType element_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return ElementType::fp64;
    case at::kFloat:
      return ElementType::fp32;
    case at::kBFloat16:
      return ElementType::bf16;
    default:
      AXONN_ASSERT(dtype == at::kHalf, "no row tail of ", c10::toString(dtype));
      return ElementType::fp16;
  }
}

struct Steps {
  bool bias = false, mask = false, residual = false;
  auto operator<=>(const Steps&) const = default;
};

// Streams: sum, result, then bias and residual if there are any.
StageChain make_chain(ElementType type, const Steps& steps) {
  PointwiseKernel kernel;
  const auto sum = kernel.stream("sum", type), result = kernel.stream("result", type);
  kernel.may_share(sum, result);
  auto value = kernel.load(sum);
  if (steps.bias) value = kernel.apply(PointwiseOp::add, {value, kernel.load(kernel.stream("bias", type))});
  if (steps.mask) value = kernel.apply(PointwiseOp::multiply, {value, kernel.cast(kernel.dropout_mask("mask"), type)});
  if (steps.residual) value = kernel.apply(PointwiseOp::add, {value, kernel.load(kernel.stream("residual", type))});
  kernel.store(result, value);
  return StageChain(kernel);
}

StageChain chain_of(ElementType type, const Steps& steps) {
  static std::mutex mutex;
  static std::map<std::pair<ElementType, Steps>, StageChain> chains;
  const std::lock_guard lock(mutex);
  const auto found = chains.find({type, steps});
  if (found != chains.end()) return found->second;
  return chains.emplace(std::pair(type, steps), make_chain(type, steps)).first->second;
}

// One call of the chain is for elements of one row whose mask is drawn without a gap.
class OwnerCall {
 public:
  OwnerCall(StageChain chain, int64_t width, int64_t element_bytes, at::Tensor bias, at::Tensor residual,
            std::optional<DropoutDraw> dropout)
      : chain_(std::move(chain)),
        width_(width),
        bytes_(element_bytes),
        bias_(std::move(bias)),
        residual_(std::move(residual)),
        dropout_(std::move(dropout)) {}

  void operator()(int64_t place, int64_t count, const void* sum, void* result) const {
    for (const int64_t end = place + count, begin = place; place < end;) {
      const int64_t row = place / width_, column = place % width_, length = std::min(end - place, width_ - column);
      const std::ptrdiff_t done = (place - begin) * bytes_;
      run(row, column, length, static_cast<const std::byte*>(sum) + done, static_cast<std::byte*>(result) + done);
      place += length;
    }
  }

 private:
  void run(int64_t row, int64_t column, int64_t length, const std::byte* sum, std::byte* result) const {
    if (!dropout_) return run(row, column, length, sum, result, {});
    const DropoutMask& mask = dropout_->mask;
    for (const MaskColumns& held : dropout_->held) {
      const int64_t first = std::max(column, held.local), end = std::min(column + length, held.local + held.size);
      if (first >= end) continue;
      const coconet::MaskInput drawn{.probability = mask.probability,
                                     .seed = mask.seed,
                                     .stream = mask.stream,
                                     .first = mask.begin_of(row) + held.global + first - held.local};
      const std::ptrdiff_t done = (first - column) * bytes_;
      run(row, first, end - first, sum + done, result + done, std::span(&drawn, 1));
    }
  }

  void run(int64_t row, int64_t column, int64_t length, const std::byte* sum, std::byte* result,
           std::span<const coconet::MaskInput> masks) const {
    std::array<void*, 4> streams{const_cast<std::byte*>(sum), result};
    size_t used = 2;
    if (bias_.defined()) streams[used++] = static_cast<std::byte*>(bias_.data_ptr()) + column * bytes_;
    if (residual_.defined())
      streams[used++] = static_cast<std::byte*>(residual_.data_ptr()) + (row * width_ + column) * bytes_;
    chain_.run({.count = length,
                .streams = std::span(streams).first(used),
                .scalars = {},
                .range_values = {},
                .masks = masks,
                .partials = {}});
  }

  StageChain chain_;
  int64_t width_, bytes_;
  at::Tensor bias_, residual_;
  std::optional<DropoutDraw> dropout_;
};

}  // namespace

const at::Tensor& RowTail::mask(const at::Tensor& like) {
  if (!mask_.defined()) mask_ = draw(*dropout_, like);
  return mask_;
}

bool RowTail::takes_bias(const at::Tensor& sums) const {
  return at_once_ && sums.is_cuda() && (dropout_ || residual_.defined());
}

void RowTail::apply_at_once(const at::Tensor& sums, const at::Tensor& bias) {
  const at::Tensor residual = residual_.defined() ? residual_.contiguous() : residual_;
  const auto begin = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
  const int64_t width = sums.size(-1);
  add_tail({.type = sums.scalar_type(),
            .rows = width == 0 ? 0 : sums.numel() / width,
            .width = width,
            .sums = sums.mutable_data_ptr(),
            .bias = begin(bias),
            .mask = dropout_ ? begin(mask(sums)) : nullptr,
            .residual = begin(residual)},
           sums.get_device());
}

void RowTail::apply(at::Tensor sums, const at::Tensor& bias) {
  const int steps = int{bias.defined()} + int{dropout_.has_value()} + int{residual_.defined()};
  if (steps > 1 && sums.is_contiguous() && takes_bias(sums)) return apply_at_once(sums, bias);
  if (bias.defined()) sums.add_(bias);
  if (dropout_) sums.mul_(mask(sums));
  if (residual_.defined()) sums.add_(residual_.reshape(sums.sizes()));
}

Epilogue RowTail::at_owner(const at::Tensor& bias, at::ScalarType dtype, int64_t width) const {
  const Steps steps{.bias = bias.defined(), .mask = dropout_.has_value(), .residual = residual_.defined()};
  return OwnerCall(chain_of(element_type(dtype), steps), width, static_cast<int64_t>(c10::elementSize(dtype)),
                   bias.defined() ? bias.contiguous() : bias, residual_.defined() ? residual_.contiguous() : residual_,
                   dropout_);
}

at::Tensor RowTail::gradient(const at::Tensor& grad) { return dropout_ ? grad * mask(grad).view(grad.sizes()) : grad; }

}  // namespace axonn
