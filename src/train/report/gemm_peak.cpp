#include "axonn/train/report/gemm_peak.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "axonn/layers/gemm.hpp"

namespace axonn {

double measure_gemm_flops(c10::ScalarType dtype, c10::Device device) {
  const int64_t n = device.is_cpu() ? 768 : 8192;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const at::Tensor a = at::ones({n, n}, options), b = at::ones({n, n}, options);
  double best = 0;
  for (const GemmKernel kernel : {GemmKernel::mm, GemmKernel::onednn}) {
    if (!gemm_available(kernel, dtype, device)) continue;
    double spent = 0;
    for (int i = 0; i < 50 && (spent < 0.1 || i < 3); ++i) {
      const auto start = std::chrono::steady_clock::now();
      (void)gemm(kernel, a, b)[0][0].item<double>();  // waits for the device
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds);
      spent += seconds;
    }
  }
  return best;
}

}  // namespace axonn
