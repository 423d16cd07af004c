#include "axonn/overlap/step/row_product.hpp"

#include <algorithm>
#include <vector>

namespace axonn {
namespace {

constexpr int64_t kFewestRows = 128, kMostRows = 256, kFewestRanges = 2, kMostRanges = 16;

}  // namespace

ProducedParts parts_of(const RowProduct& product, const Group& group) {
  const int64_t owned = (product.rows + group.size() - 1) / group.size();
  const int64_t rows = std::max(std::clamp(owned / kFewestRanges, kFewestRows, kMostRows), owned / kMostRanges);
  const auto element_bytes = static_cast<int64_t>(product.options.dtype().itemsize());
  return {group, product.rows * product.width, element_bytes, std::max<int64_t>(1, rows * product.width)};
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
