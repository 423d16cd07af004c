#include "axonn/train/report/gemm_peak.hpp"

#include <chrono>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "axonn/core/median.hpp"
#include "axonn/kernels/cpu/gemm.hpp"

namespace axonn {
namespace {

// Multiplying zeros or ones takes a GPU less power than numbers of a network, and so less time.
at::Tensor uneven_numbers(int64_t n, const at::TensorOptions& options) {
  return at::arange(n * n, options.dtype(at::kFloat)).mul_(0.618).sin_().to(options).view({n, n});
}

// Seconds from the start of `work` to its end on the device.
template <typename Work>
double seconds_of(c10::Device device, const Work& work) {
  if (device.is_cpu()) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event start(device.type(), c10::EventFlag::BACKEND_DEFAULT), end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  start.record(stream);
  work();
  end.record(stream);
  end.synchronize();
  return start.elapsedTime(end) / 1e3;
}

}  // namespace

double measure_gemm_flops(c10::ScalarType dtype, c10::Device device) {
  constexpr double kWindowSeconds = 0.03;
  const double warm_up_seconds = device.is_cpu() ? 0 : 0.3;  // a GPU that had nothing to do has slow clocks
  const int64_t n = device.is_cpu() ? 768 : 8192;
  const int at_once = device.is_cpu() ? 1 : 5;  // a device needs no pause between products
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const at::Tensor a = uneven_numbers(n, options), b = uneven_numbers(n, options);
  const auto seconds_with = [&](GemmKernel kernel) {
    return seconds_of(device, [&] {
      for (int product = 0; product < at_once; ++product) (void)gemm(kernel, a, b);
    });
  };
  const auto window = [&](GemmKernel kernel) {
    double spent = 0;
    int done = 0;
    for (; spent < kWindowSeconds; done += at_once) spent += seconds_with(kernel);
    return done * 2.0 * static_cast<double>(n * n * n) / spent;
  };
  GemmKernel best = GemmKernel::mm;
  std::vector<double> rates = {0};
  for (const GemmKernel kernel : {GemmKernel::mm, GemmKernel::onednn}) {
    if (!gemm_available(kernel, dtype, device)) continue;
    double warm = seconds_with(kernel);
    while (warm < warm_up_seconds) warm += seconds_with(kernel);
    const double rate = window(kernel);
    if (rate <= rates[0]) continue;
    best = kernel;
    rates = {rate};
  }
  while (rates.size() < 3) rates.push_back(window(best));
  return median(rates);
}

}  // namespace axonn
