#pragma once

#include <cstdint>
#include <span>

#include "axonn/data/images/image_file.hpp"

namespace axonn {

// Crops the square in the centre of `image` and resizes its side to `size`. When the image shrinks,
// a pixel is the mean of the area that it covers, so that fine patterns do not alias. When it
// grows, pixels are interpolated bilinearly. `pixels` receives size * size * 3 bytes, rounded to
// nearest.
void centre_square(const Image& image, int64_t size, std::span<uint8_t> pixels);

}  // namespace axonn
