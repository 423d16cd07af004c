#include "axonn/layers/convolution_choice.hpp"

#include <algorithm>
#include <charconv>

#include "axonn/core/error.hpp"
#include "axonn/layers/gemm.hpp"

namespace axonn {
namespace {

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

}  // namespace

bool convolution_available(ConvolutionKernel kernel, at::ScalarType dtype, c10::Device device) {
  if (kernel == ConvolutionKernel::direct) return true;
  if (!device.is_cpu() || (dtype != at::kFloat && dtype != at::kDouble)) return false;
  return kernel == ConvolutionKernel::winograd || gemm_available(GemmKernel::onednn, dtype, device);
}

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
                "layers.convolution", "'", text, "' is no choice of convolutions");
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

}  // namespace axonn
