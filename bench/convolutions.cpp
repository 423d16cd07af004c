// Milliseconds of every kernel of the 3x3 convolutions that a UNet trains (bench/peers.py, size
// unet), by use, and which one choose_convolutions() takes. Kernels alternate; medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/types.h>

#include <axonn/axonn.hpp>
#include <axonn/core/median.hpp>
#include <axonn/kernels/choice/convolution_choice.hpp>
#include <axonn/model/unet/parallelize.hpp>

namespace {

using axonn::ConvolutionKernel;
using axonn::ConvolutionShape;
using axonn::ConvolutionUse;

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Case {
  torch::Tensor input, weight, grad;

  void run(ConvolutionKernel kernel, ConvolutionUse use) const {
    if (use == ConvolutionUse::output)
      axonn::convolve(kernel, input, weight);
    else if (use == ConvolutionUse::grad_input)
      axonn::convolve_input_gradient(kernel, grad, weight);
    else
      axonn::convolve_weight_gradient(kernel, grad, input);
  }
};

// GFLOP/s of square products of this size, oneDNN's over mm's.
void print_products(int64_t size) {
  const auto a = torch::randn({size, size}), b = torch::randn({size, size});
  std::vector<double> ratios;
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 8; ++i) {
    const double mm = seconds_of([&] { axonn::gemm(axonn::GemmKernel::mm, a, b); }),
                 onednn = seconds_of([&] { axonn::gemm(axonn::GemmKernel::onednn, a, b); });
    best[0] = std::min(best[0], mm);
    best[1] = std::min(best[1], onednn);
    if (i > 0) ratios.push_back(mm / onednn);
  }
  const double operations = 2e-9 * static_cast<double>(size * size * size);
  std::printf("fp32 products of %lld: mm %.0f GFLOP/s, oneDNN %.0f, ratio %.2f (median of %zu)\n",
              static_cast<long long>(size), operations / best[0], operations / best[1], axonn::median(ratios),
              ratios.size());
}

void measure(const ConvolutionShape& shape, int64_t images, int repetitions, const axonn::ConvolutionChoice& choice) {
  constexpr const char* kUses[] = {"output", "grad input", "grad weight"};
  constexpr std::array kKernels = {ConvolutionKernel::direct, ConvolutionKernel::winograd,
                                   ConvolutionKernel::winograd_onednn};
  const Case one{torch::randn({images, shape.height, shape.width, shape.in}), torch::randn({shape.out, 3, 3, shape.in}),
                 torch::randn({images, shape.height, shape.width, shape.out})};
  for (const auto use : {ConvolutionUse::output, ConvolutionUse::grad_input, ConvolutionUse::grad_weight}) {
    std::array<std::vector<double>, 3> times;
    for (int i = -1; i < repetitions; ++i)
      for (const ConvolutionKernel kernel : kKernels) {
        const double seconds = seconds_of([&] { one.run(kernel, use); });
        if (i >= 0) times[static_cast<size_t>(kernel)].push_back(seconds * 1e3);
      }
    const auto median = [&](ConvolutionKernel kernel) { return axonn::median(times[static_cast<size_t>(kernel)]); };
    const ConvolutionKernel chosen = choice(use, shape);
    std::printf("%3lldx%-3lld %4lld -> %-4lld %-12s %9.2f %9.2f %9.2f   %-16s %5.2f\n",
                static_cast<long long>(shape.height), static_cast<long long>(shape.width),
                static_cast<long long>(shape.in), static_cast<long long>(shape.out), kUses[static_cast<size_t>(use)],
                median(kKernels[0]), median(kKernels[1]), median(kKernels[2]),
                std::string(axonn::to_string(chosen)).c_str(), median(ConvolutionKernel::direct) / median(chosen));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 9, threads = 1;
  int64_t images = 16;
  CLI::App app("the kernels of a UNet's 3x3 convolutions");
  app.add_option("--repetitions", repetitions, "interleaved runs of each kernel");
  app.add_option("--threads", threads, "number of compute threads");
  app.add_option("--images", images, "images per call");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  axonn::Environment environment;
  const torch::NoGradGuard no_grad;
  print_products(1024);
  const auto shapes = axonn::unet_convolutions({}, {});
  axonn::ConvolutionChoice choice;
  const double seconds = seconds_of(
      [&] { choice = axonn::choose_convolutions(environment.world(), shapes, images, at::kFloat, c10::kCPU); });
  std::printf("choosing for %zu shapes took %.1f s\n", shapes.size(), seconds);
  std::printf("%-8s %-12s %-12s %9s %9s %9s   %-16s %5s\n", "image", "channels", "use", "direct", "winograd", "onednn",
              "chosen", "gain");
  for (const ConvolutionShape& shape : shapes) measure(shape, images, repetitions, choice);
  return 0;
}
