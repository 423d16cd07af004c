#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/data/images/image_file.hpp"

// A sheet is one image that shows many images, with white lines of two pixels between them. Values
// of [-1, 1] become 0 to 255, rounded to nearest; values outside are clamped. No communication: one
// rank calls, with whole images.
namespace axonn {

// `images` is (count, height, width, 3), floating point, on any device. The sheet has rows of
// `columns` images; 0: as square as count allows. Image i is at row i / columns and column i %
// columns, so its first pixel is at ((i % columns) * (width + 2), (i / columns) * (height + 2)).
// The rest of the last row is white. Throws UserError for another shape, no image, or a value that
// is not finite (which image).
Image make_sheet(const at::Tensor& images, int64_t columns = 0);

// Writes make_sheet() to a PNG file. Throws as write_png() does.
void save_sheet(const std::string& path, const at::Tensor& images, int64_t columns = 0);

// (count, moments, height, width, 3): the states of each image during sampling, one image per row,
// from left to right.
void save_strip(const std::string& path, const at::Tensor& trajectory);

}  // namespace axonn
