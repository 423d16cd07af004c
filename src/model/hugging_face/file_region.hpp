#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// Most bytes that a region is read with.
inline constexpr int64_t kRegionBytes = int64_t{16} << 20;

// Rows and columns of a matrix in a file, or of a vector, whose elements are rows of one column:
// (rows, columns), in the file's type. Reads whole rows where it needs a sixteenth of them or more.
at::Tensor read_region(const safetensors::StateDictReader::Place& place, Range rows, Range columns);

// Bytes that are read per row of such a region.
int64_t bytes_per_row(const safetensors::StateDictReader::Place& place, Range columns);

}  // namespace axonn
