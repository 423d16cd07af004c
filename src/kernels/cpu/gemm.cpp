#include "axonn/kernels/cpu/gemm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace axonn {
namespace {

// LibTorch's C++ interface has no function for oneDNN's product.
using OneDnn = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                          c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

const std::optional<c10::TypedOperatorHandle<OneDnn>>& onednn() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<OneDnn>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found) return {};
    return found->typed<OneDnn>();
  }();
  return handle;
}

// On x86, oneDNN multiplies bf16 only with AVX-512; otherwise its product throws.
bool onednn_has_bf16() {
  static const bool has = [] {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
    return found && found->typed<bool()>().call();
  }();
  return has;
}

// addmm of 16-bit operands with an fp32 result, on a GPU; LibTorch has it from 2.8 on.
using Widening = at::Tensor&(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::ScalarType, const at::Scalar&,
                             const at::Scalar&, at::Tensor&);

const std::optional<c10::TypedOperatorHandle<Widening>>& widening_addmm() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<Widening>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"aten::addmm", "dtype_out"});
    if (!found) return {};
    return found->typed<Widening>();
  }();
  return handle;
}

}  // namespace

at::Tensor gemm(GemmKernel kernel, const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias) {
  if (kernel == GemmKernel::onednn)
    return onednn()->call(a, b, bias, "none", c10::List<std::optional<at::Scalar>>(), {});
  return bias ? at::addmm(*bias, a, b.t()) : at::mm(a, b.t());
}

void gemm_into(GemmKernel kernel, const at::Tensor& block, const at::Tensor& a, const at::Tensor& b, bool add) {
  at::Tensor out = block;
  if (kernel == GemmKernel::mm && block.scalar_type() == a.scalar_type()) {
    at::addmm_out(out, block, a, b.t(), add ? 1 : 0);
    return;
  }
  if (block.is_cuda() && block.scalar_type() == at::kFloat && widening_addmm()) {
    widening_addmm()->call(block, a, b.t(), at::kFloat, add ? 1 : 0, 1, out);
    return;
  }
  const at::Tensor product = gemm(kernel, a, b);
  add ? out.add_(product) : out.copy_(product);
}

bool gemm_available(GemmKernel kernel, at::ScalarType dtype, c10::Device device) {
  if (kernel == GemmKernel::mm) return true;
  return device.is_cpu() && onednn().has_value() &&
         (dtype == at::kFloat || (dtype == at::kBFloat16 && onednn_has_bf16()));
}

}  // namespace axonn
