#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/production.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// A product (rows, width) of which every rank of a group has a summand, because its inner dim is
// split over them (row-parallel). `all` computes it, `some` writes rows of it to `to`; an overlap
// calls only `some`, for rows in the order of the messages, so its rounding differs. They are whole
// units: a convolution has a row per pixel, and computes images. `owner`, which may be empty, is C
// for finished sums, called as comm's epilogue.
struct RowProduct {
  int64_t rows = 0;  // a multiple of unit
  int64_t width = 0;
  int64_t unit = 1;
  at::TensorOptions options;
  std::function<at::Tensor()> all;
  std::function<void(const at::Tensor& to, Range rows)> some;
  Epilogue owner;
  int64_t bytes() const { return rows * width * static_cast<int64_t>(options.dtype().itemsize()); }
};

// The parts in which an overlapped product of this size is computed: the first and the last range
// of a share have 64 rows, because the wire waits for the first and everybody for the last. Those
// between have 128 or more, because each part reads the whole weight: that costs as much as 20 to
// 30 rows. A share of less than 256 rows is one range. With `rows` > 0, every range has so many.
// All are rounded up to whole units. If shares have no whole unit, a part is a share. A part has
// all columns, because shares and messages are contiguous. No range has more than 4 MiB.
ProducedParts parts_of(const RowProduct& product, const Group& group, int64_t rows = 0);

// Computes the product into `output` part by part, and releases each.
void produce(const RowProduct& product, const at::Tensor& output, Production& production);

}  // namespace axonn
