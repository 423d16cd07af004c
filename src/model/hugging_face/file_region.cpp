#include "model/hugging_face/file_region.hpp"

#include <ATen/ops/empty.h>

namespace axonn {
namespace {

using Place = safetensors::StateDictReader::Place;

int64_t width_of(const Place& place) { return place.entry->shape.size() < 2 ? 1 : place.entry->shape[1]; }

bool reads_whole_rows(const Place& place, Range columns) { return columns.size() * 16 >= width_of(place); }

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace

at::Tensor read_region(const Place& place, Range rows, Range columns) {
  const int64_t width = width_of(place);
  const auto options = at::TensorOptions().dtype(place.entry->dtype);
  const auto item = static_cast<int64_t>(c10::elementSize(place.entry->dtype));
  if (reads_whole_rows(place, columns)) {
    const at::Tensor whole = at::empty({rows.size(), width}, options);
    place.file->read(*place.entry, rows.begin * width * item, bytes_of(whole));
    return whole.narrow(1, columns.begin, columns.size());
  }
  const at::Tensor part = at::empty({rows.size(), columns.size()}, options);
  for (int64_t row = 0; row < rows.size(); ++row)
    place.file->read(*place.entry, ((rows.begin + row) * width + columns.begin) * item, bytes_of(part[row]));
  return part;
}

int64_t bytes_per_row(const Place& place, Range columns) {
  const int64_t read = reads_whole_rows(place, columns) ? width_of(place) : columns.size();
  return read * static_cast<int64_t>(c10::elementSize(place.entry->dtype));
}

}  // namespace axonn
