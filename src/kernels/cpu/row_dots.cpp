#include "kernels/cpu/row_dots.hpp"

#include <algorithm>
#include <array>

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include "core/wide_vectors.hpp"
#include "kernels/cpu/dot_lanes.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

constexpr int64_t kMostRows = 4;
constexpr int64_t kGrain = 1 << 15;  // least elements of the weight for a thread

template <int64_t kRows, typename Element>
void multiply(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& output) {
  const int64_t n = weight.size(0), k = weight.size(1);
  const at::Tensor wide = rows.to(at::kFloat).contiguous();
  const float* const from = wide.const_data_ptr<float>();
  const auto* const w = weight.const_data_ptr<Element>();
  const auto* const b = bias.defined() ? bias.const_data_ptr<Element>() : nullptr;
  auto* const to = output.mutable_data_ptr<Element>();
  parallel_for(0, n, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, k)), [&](int64_t begin, int64_t end) {
    with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
      for (int64_t column = begin; column < end; ++column) {
        float sums[kRows];
        dots<kRows>(from, w + column * k, k, sums);
        for (int64_t r = 0; r < kRows; ++r)
          to[r * n + column] = static_cast<Element>(sums[r] + (b == nullptr ? 0.0F : number(b[column])));
      }
    });
  });
}

template <typename Element>
void multiply_by_count(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& output) {
  constexpr std::array kByCount = {multiply<1, Element>, multiply<2, Element>, multiply<3, Element>,
                                   multiply<4, Element>};
  kByCount[static_cast<size_t>(rows.size(0) - 1)](rows, weight, bias, output);
}

}  // namespace

bool has_row_dots(const at::Tensor& rows, const at::Tensor& weight) {
  const at::ScalarType type = rows.scalar_type();
  return rows.is_cpu() && rows.size(0) >= 1 && rows.size(0) <= kMostRows && weight.is_contiguous() &&
         weight.scalar_type() == type && (type == at::kFloat || type == at::kBFloat16);
}

at::Tensor row_dots(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor output = at::empty({rows.size(0), weight.size(0)}, rows.options());
  const at::Tensor all = bias.defined() ? bias.contiguous() : bias;
  rows.scalar_type() == at::kFloat ? multiply_by_count<float>(rows, weight, all, output)
                                   : multiply_by_count<c10::BFloat16>(rows, weight, all, output);
  return output;
}

}  // namespace axonn
