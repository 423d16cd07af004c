#pragma once

#include <cstdint>
#include <span>

#include "axonn/data/images/picture_file.hpp"

namespace axonn {

// The square in the middle of `picture`, its shorter side resized to `size`: a pixel is the mean of the area that it covers when the
// picture shrinks, so that fine patterns do not alias, and bilinear when it grows. `pixels` takes size * size * 3 bytes, rounded to
// nearest.
void centre_square(const Picture& picture, int64_t size, std::span<uint8_t> pixels);

}  // namespace axonn
