#include "axonn/kernels/choice/gemm_choice.hpp"

#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "axonn/core/error.hpp"
#include "kernels/medians_in_turn.hpp"

namespace axonn {
namespace {

// Numbers of multiplications below which a product is small, or medium.
constexpr int64_t kSmall = int64_t{1} << 23, kMedium = int64_t{1} << 28;

// Whether oneDNN is worth it for a product of m rows, k input features and n output features.
bool onednn_is_faster(GemmUse use, int64_t m, int64_t n, int64_t k, at::ScalarType dtype) {
  constexpr double kWorthIt = 0.97;  // mm is kept when both are about equal
  const at::Tensor x = at::ones({m, k}, dtype), w = at::ones({n, k}, dtype), g = at::ones({m, n}, dtype),
                   block = at::empty({n, k}, at::kFloat);
  const auto work = [&](GemmKernel kernel) {
    return [&, kernel] {
      if (use == GemmUse::output)
        gemm(kernel, x, w);
      else if (use == GemmUse::grad_input)
        gemm(kernel, g, w.t());
      else
        gemm_into(kernel, block, g.t(), x.t(), /*add=*/false);
    };
  };
  const std::vector<double> seconds = medians_in_turn({work(GemmKernel::mm), work(GemmKernel::onednn)});
  return seconds[1] < kWorthIt * seconds[0];
}

}  // namespace

size_t GemmChoice::place(GemmUse use, int64_t m, int64_t n, int64_t k) {
  const int64_t multiplications = m * n * k;
  return static_cast<size_t>(use) * 3 + (multiplications < kSmall ? 0 : multiplications < kMedium ? 1 : 2);
}

GemmChoice::GemmChoice(std::string_view text) {
  std::vector<GemmKernel> given;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    given.push_back(parse_name<GemmKernel>(text.substr(begin, end - begin), "a matrix product"));
    begin = end + 1;
  }
  AXONN_CHECK(given.size() == 1 || given.size() == kernels_.size(), "kernels.gemm", "'", text,
              "' is no choice of matrix products");
  for (size_t i = 0; i < kernels_.size(); ++i) kernels_[i] = given[given.size() == 1 ? 0 : i];
}

std::string GemmChoice::to_string() const {
  const bool same = std::ranges::all_of(kernels_, [&](GemmKernel kernel) { return kernel == kernels_[0]; });
  std::string text;
  for (size_t i = 0; i < (same ? 1 : kernels_.size()); ++i)
    text += std::string(i == 0 ? "" : ",") + std::string(axonn::to_string(kernels_[i]));
  return text;
}

GemmChoice choose_gemm(Communicator& everyone, at::ScalarType dtype, c10::Device device) {
  GemmChoice choice;
  if (!gemm_available(GemmKernel::onednn, dtype, device)) return choice;
  const at::NoGradGuard no_grad;
  const std::array<std::array<int64_t, 3>, 3> sizes = {{{128, 256, 64}, {1024, 256, 256}, {1024, 768, 768}}};
  const at::Tensor chosen = at::empty({9}, at::kLong);
  int64_t* out = chosen.mutable_data_ptr<int64_t>();
  for (const auto use : {GemmUse::output, GemmUse::grad_input, GemmUse::grad_weight})
    for (const auto& [m, n, k] : sizes) *out++ = onednn_is_faster(use, m, n, k, dtype) ? 1 : 0;
  everyone.broadcast(chosen, 0).wait();
  const int64_t* in = chosen.const_data_ptr<int64_t>();
  for (const auto use : {GemmUse::output, GemmUse::grad_input, GemmUse::grad_weight})
    for (const auto& [m, n, k] : sizes) choice.set(use, m, n, k, static_cast<GemmKernel>(*in++));
  return choice;
}

}  // namespace axonn
