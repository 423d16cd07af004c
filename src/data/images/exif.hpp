#pragma once

#include <cstdint>
#include <span>

#include "axonn/data/images/image_file.hpp"

// How a camera was held, as EXIF says it: 1 is upright, 2 to 8 are the other ways.
namespace axonn {

// The orientation in `tiff`, an EXIF block from its byte order mark on. 1 if it has none, or one
// that is no number from 1 to 8, or is damaged.
int exif_orientation(std::span<const uint8_t> tiff);

// The image as it is to be looked at. 5 to 8 exchange width and height.
Image upright(Image image, int orientation);

}  // namespace axonn
