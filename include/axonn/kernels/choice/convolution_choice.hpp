#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/kernels/cpu/convolution_kernels.hpp"

namespace axonn {

enum class ConvolutionUse : uint8_t { output, grad_input, grad_weight };
inline constexpr std::array kConvolutionUses = {ConvolutionUse::output, ConvolutionUse::grad_input,
                                                ConvolutionUse::grad_weight};

// Sizes of such a convolution on one rank: pixels of its image, channels on this rank.
struct ConvolutionShape {
  int64_t height = 0, width = 0, in = 0, out = 0;
  auto operator<=>(const ConvolutionShape&) const = default;
};

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

// Measures the shapes that `known` lacks, with up to `images` images, on all ranks at the same
// time, and returns `known` with what was fastest on rank 0 of `everyone`. Takes some tenths of a
// second per shape; every rank calls it, with the same arguments. It returns {} at once where there
// is no choice (a GPU, 16-bit types).
ConvolutionChoice choose_convolutions(Communicator& everyone, std::span<const ConvolutionShape> shapes, int64_t images,
                                      at::ScalarType dtype, c10::Device device, ConvolutionChoice known = {});

}  // namespace axonn
