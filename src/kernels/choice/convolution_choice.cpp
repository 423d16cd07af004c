#include "axonn/kernels/choice/convolution_choice.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/winograd_convolution.hpp"
#include "kernels/medians_in_turn.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Reads "<number><end>" off the front of the text.
int64_t take_number(std::string_view& text, char end) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<size_t>(rest - text.data());
  if (error != std::errc() || used >= text.size() || *rest != end || number <= 0) return 0;
  text.remove_prefix(used + 1);
  return number;
}

std::string_view take_part(std::string_view& text, char end) {
  const size_t size = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return part;
}

constexpr std::array kKernels = {ConvolutionKernel::direct, ConvolutionKernel::winograd,
                                 ConvolutionKernel::winograd_onednn};

// The convolutions of one shape as they are measured.
struct Sample {
  Tensor input, weight, grad;

  void run(ConvolutionKernel kernel, ConvolutionUse use) const {
    switch (use) {
      case ConvolutionUse::output:
        convolve(kernel, input, weight);
        return;
      case ConvolutionUse::grad_input:
        convolve_input_gradient(kernel, grad, weight);
        return;
      default:
        convolve_weight_gradient(kernel, grad, input);
    }
  }
};

// Enough images to fill the threads, but no more than are needed to see which kernel is faster.
Sample sample_of(const ConvolutionShape& shape, int64_t images, at::ScalarType dtype) {
  const int64_t enough = kMostTilesAtOnce * at::get_num_threads() * 4 / (shape.height * shape.width);
  const int64_t batch = std::clamp<int64_t>(enough, 1, std::max<int64_t>(images, 1));
  return {.input = at::ones({batch, shape.height, shape.width, shape.in}, dtype),
          .weight = at::ones({shape.out, 3, 3, shape.in}, dtype),
          .grad = at::ones({batch, shape.height, shape.width, shape.out}, dtype)};
}

ConvolutionKernel fastest_kernel(const Sample& sample, ConvolutionUse use) {
  constexpr double kWorthIt = 0.95;  // an earlier one is kept when both are about equal
  std::vector<ConvolutionKernel> kernels;
  std::vector<std::function<void()>> works;
  for (const ConvolutionKernel kernel : kKernels) {
    if (!convolution_available(kernel, sample.input.scalar_type(), c10::kCPU)) continue;
    kernels.push_back(kernel);
    works.emplace_back([&sample, kernel, use] { sample.run(kernel, use); });
  }
  const std::vector<double> seconds = medians_in_turn(works);
  size_t best = 0;
  for (size_t i = 1; i < kernels.size(); ++i)
    if (seconds[i] < kWorthIt * seconds[best]) best = i;
  return kernels[best];
}

}  // namespace

ConvolutionChoice::ConvolutionChoice(std::string_view text) {
  if (text == to_string()) return;
  for (std::string_view rest = text; !rest.empty() || kernels_.empty();) {
    std::string_view one = take_part(rest, ';');
    ConvolutionShape shape;
    shape.height = take_number(one, 'x');
    shape.width = take_number(one, ':');
    shape.in = take_number(one, '>');
    shape.out = take_number(one, '=');
    AXONN_CHECK(shape.height * shape.width * shape.in * shape.out > 0 && std::ranges::count(one, ',') == 2 &&
                    !text.ends_with(';'),
                "kernels.convolution", "'", text, "' is no choice of convolutions");
    for (const ConvolutionUse use : kConvolutionUses)
      set(use, shape, parse_name<ConvolutionKernel>(take_part(one, ','), "a convolution"));
  }
}

ConvolutionKernel ConvolutionChoice::operator()(ConvolutionUse use, const ConvolutionShape& shape) const {
  const auto found = kernels_.find(shape);
  return found == kernels_.end() ? ConvolutionKernel::direct : found->second[static_cast<size_t>(use)];
}

void ConvolutionChoice::set(ConvolutionUse use, const ConvolutionShape& shape, ConvolutionKernel kernel) {
  kernels_[shape][static_cast<size_t>(use)] = kernel;
}

bool ConvolutionChoice::available(at::ScalarType dtype, c10::Device device) const {
  return std::ranges::all_of(kernels_, [&](const auto& each) {
    return std::ranges::all_of(each.second,
                               [&](ConvolutionKernel kernel) { return convolution_available(kernel, dtype, device); });
  });
}

std::string ConvolutionChoice::summary() const {
  std::string text;
  for (const auto& [name, kernel] : Names<ConvolutionKernel>::all) {
    int64_t uses = 0;
    for (const auto& [shape, kernels] : kernels_) uses += std::ranges::count(kernels, kernel);
    if (uses == 0) continue;
    if (!text.empty()) text += ", ";
    text += detail::concatenate(uses, " ", name);
  }
  return text.empty() ? "direct" : text;
}

std::string ConvolutionChoice::to_string() const {
  std::string text;
  for (const auto& [shape, kernels] : kernels_) {
    if (!text.empty()) text += ";";
    text += detail::concatenate(shape.height, "x", shape.width, ":", shape.in, ">", shape.out, "=",
                                axonn::to_string(kernels[0]), ",", axonn::to_string(kernels[1]), ",",
                                axonn::to_string(kernels[2]));
  }
  return text.empty() ? "direct" : text;
}

ConvolutionChoice choose_convolutions(Communicator& everyone, std::span<const ConvolutionShape> shapes, int64_t images,
                                      at::ScalarType dtype, c10::Device device, ConvolutionChoice known) {
  if (!convolution_available(ConvolutionKernel::winograd, dtype, device)) return {};
  const at::NoGradGuard no_grad;
  for (const ConvolutionShape& shape : shapes) {
    if (known.knows(shape)) continue;
    const Sample sample = sample_of(shape, images, dtype);
    const Tensor chosen = at::empty({static_cast<int64_t>(kConvolutionUses.size())}, at::kLong);
    for (const ConvolutionUse use : kConvolutionUses)
      chosen.mutable_data_ptr<int64_t>()[static_cast<size_t>(use)] = static_cast<int64_t>(fastest_kernel(sample, use));
    everyone.broadcast(chosen, 0).wait();
    for (const ConvolutionUse use : kConvolutionUses)
      known.set(use, shape, kKernels[static_cast<size_t>(chosen.const_data_ptr<int64_t>()[static_cast<size_t>(use)])]);
  }
  return known;
}

}  // namespace axonn
