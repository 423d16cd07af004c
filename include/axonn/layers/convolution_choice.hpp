#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "axonn/core/names.hpp"

namespace axonn {

// How a 3x3 convolution of stride 1, padded by 1, is computed on a CPU: as LibTorch does (oneDNN),
// or in Winograd's way (layers/ops/winograd_convolution.hpp) with one of two matrix products, in
// fp32 (both) and fp64 (mm only). They round differently.
enum class ConvolutionKernel : uint8_t { direct, winograd, winograd_onednn };

template <>
struct Names<ConvolutionKernel> {
  static constexpr Named<ConvolutionKernel> all[] = {{"direct", ConvolutionKernel::direct},
                                                     {"winograd", ConvolutionKernel::winograd},
                                                     {"winograd-onednn", ConvolutionKernel::winograd_onednn}};
};

enum class ConvolutionUse : uint8_t { output, grad_input, grad_weight };
inline constexpr std::array kConvolutionUses = {ConvolutionUse::output, ConvolutionUse::grad_input,
                                                ConvolutionUse::grad_weight};

// Sizes of such a convolution on one rank: pixels of its image, channels on this rank.
struct ConvolutionShape {
  int64_t height = 0, width = 0, in = 0, out = 0;
  auto operator<=>(const ConvolutionShape&) const = default;
};

bool convolution_available(ConvolutionKernel kernel, at::ScalarType dtype, c10::Device device);

// The kernel of every convolution, by shape and use. All ranks must make the same choice.
class ConvolutionChoice {
 public:
  ConvolutionChoice() = default;  // direct for every shape
  // Parses a result of to_string(). UserError for any other text.
  explicit ConvolutionChoice(std::string_view text);

  // direct for a shape that was not set.
  ConvolutionKernel operator()(ConvolutionUse use, const ConvolutionShape& shape) const;
  void set(ConvolutionUse use, const ConvolutionShape& shape, ConvolutionKernel kernel);
  bool knows(const ConvolutionShape& shape) const { return kernels_.contains(shape); }
  bool available(at::ScalarType dtype, c10::Device device) const;  // every kernel that it names
  // "direct", or for every shape "32x32:64>128=winograd,direct,winograd", separated by ";"
  std::string to_string() const;
  // For people: how many uses take each kernel, "7 direct, 29 winograd-onednn"; "direct" if none is
  // set.
  std::string summary() const;
  bool operator==(const ConvolutionChoice&) const = default;

 private:
  std::map<ConvolutionShape, std::array<ConvolutionKernel, 3>> kernels_;  // by use
};

}  // namespace axonn
