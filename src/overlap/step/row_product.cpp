#include "axonn/overlap/step/row_product.hpp"

#include <algorithm>
#include <vector>

namespace axonn {
namespace {

constexpr int64_t kEndRows = 128, kMiddleRows = 256, kMostRanges = 8, kMostBytes = 4 << 20;

// The rows of the ranges of a share.
std::vector<int64_t> range_rows(int64_t owned, int64_t most) {
  const int64_t end = std::min(kEndRows, most), middle = owned - 2 * end;
  if (middle < 0) return {std::min(std::max<int64_t>(owned, 1), most)};
  const int64_t each = std::min(std::max(kMiddleRows, middle / kMostRanges), most), ranges = (middle + each - 1) / each;
  std::vector<int64_t> rows = {end};
  for (int64_t range = 0; range < ranges; ++range) rows.push_back((middle + range) / ranges);
  rows.push_back(end);
  return rows;
}

}  // namespace

ProducedParts parts_of(const RowProduct& product, const Group& group, int64_t rows) {
  const auto element_bytes = static_cast<int64_t>(product.options.dtype().itemsize());
  const int64_t width = std::max<int64_t>(product.width, 1);
  const int64_t owned = (product.rows + group.size() - 1) / group.size();
  const int64_t most = std::max<int64_t>(1, kMostBytes / (width * element_bytes));
  std::vector<int64_t> ranges = rows == 0 ? range_rows(owned, most) : std::vector{std::min(rows, most)};
  for (int64_t& range : ranges) range *= width;
  return {group, product.rows * product.width, element_bytes, ranges};
}

// Parts end within rows where messages do. Such a row is computed with the part that comes first.
void produce(const RowProduct& product, const at::Tensor& output, Production& production) {
  std::vector<bool> written(static_cast<size_t>(product.rows));
  const auto is_written = [&](int64_t row) { return written[static_cast<size_t>(row)]; };
  for (int64_t number = 0; number < production.parts().size(); ++number) {
    const Range part = production.parts()[number];
    if (part.size() > 0) {
      Range rows{part.begin / product.width, (part.end + product.width - 1) / product.width};
      while (rows.size() > 0 && is_written(rows.begin)) ++rows.begin;
      while (rows.size() > 0 && is_written(rows.end - 1)) --rows.end;
      if (rows.size() > 0) product.some(output.narrow(0, rows.begin, rows.size()), rows);
      std::fill(written.begin() + rows.begin, written.begin() + rows.end, true);
    }
    production.release();
  }
}

}  // namespace axonn
