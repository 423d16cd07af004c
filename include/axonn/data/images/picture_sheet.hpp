#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/data/images/picture_file.hpp"

// Many pictures on one, with white lines of two pixels between them. Values of [-1, 1] become 0 to 255, rounded to nearest; what lies
// outside is clamped. No communication: one rank calls, with whole pictures.
namespace axonn {

// (count, height, width, 3), floating point, on any device, as rows of `columns` pictures; 0: as near to a square as count allows. Picture
// i is at row i / columns and column i % columns, so its first pixel is at ((i % columns) * (width + 2), (i / columns) * (height + 2));
// what is left of the last row is white. UserError: another shape, no picture, a value that is not finite (which picture).
Picture make_sheet(const at::Tensor& pictures, int64_t columns = 0);

// make_sheet into a PNG file, with write_png's errors.
void save_sheet(const std::string& path, const at::Tensor& pictures, int64_t columns = 0);

// (count, moments, height, width, 3): how each picture came to be, one a row from left to right.
void save_strip(const std::string& path, const at::Tensor& trajectory);

}  // namespace axonn
