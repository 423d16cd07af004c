#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace axonn {

// A mask of (rows, width) elements: 0 where dropped, 1 / (1 - probability) where kept. Element e of
// the whole tensor uses word e % 4 of Philox block e / 4, on any rank and device.
struct DropoutMask {
  uint64_t seed = 0;
  uint32_t stream = 0;
  double probability = 0;
  int64_t rows = 0;
  int64_t width = 0;
  // Row (a * middle + b) * inner + c begins at element first + a * outer_stride + b * middle_stride
  // + c * inner_stride of the whole tensor. Rows are counted from `first_row`.
  int64_t first = 0;
  int64_t first_row = 0;
  // In CUDA device memory: a number of samples, of `sample` elements each, that `first` is counted
  // from. The kernel reads it, so a launch that is repeated may find another. nullptr: 0.
  const int64_t* origin = nullptr;
  int64_t sample = 0;
  int64_t middle = 1;
  int64_t inner = 1;
  int64_t outer_stride = 0;
  int64_t middle_stride = 0;
  int64_t inner_stride = 0;

  // The element of the whole tensor at which row `row` of the mask begins. Without `origin`.
  int64_t begin_of(int64_t row) const {
    const int64_t counted = first_row + row;
    return first + counted / (middle * inner) * outer_stride + counted / inner % middle * middle_stride +
           counted % inner * inner_stride;
  }
};

// Columns [local, local + size) of every row, which are [global, global + size) of a row of the
// whole tensor.
struct MaskColumns {
  int64_t local = 0;
  int64_t global = 0;
  int64_t size = 0;
};

// Fills these columns of `out` (rows * width numbers, contiguous) in host memory. Without `origin`.
void fill_mask(float* out, const DropoutMask& mask, const MaskColumns& columns);

// The same in CUDA device memory, rounded to `type` (fp64, fp32, bf16 or fp16), by a kernel on the
// current stream. BackendError if the launch fails or CUDA is not built in.
void fill_cuda_mask(void* out, c10::ScalarType type, const DropoutMask& mask, const MaskColumns& columns, int device);

}  // namespace axonn
