#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "axonn/checkpoint/safetensors.hpp"

namespace axonn::safetensors {

// The header of a safetensors file, without its length; safetensors_header.cpp reads it too, for
// File.

// Elements of the shape times the element size; nullopt when a dim is negative or the product
// overflows.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, c10::ScalarType dtype);

// The header's text, so long that the data is aligned. UserError if a name occurs twice.
std::string header_of(std::span<const View* const> tensors, const Metadata& metadata);

}  // namespace axonn::safetensors
