#include "axonn/overlap/step/row_product.hpp"

#include <algorithm>
#include <vector>

namespace axonn {
namespace {

constexpr int64_t kEndRows = 64, kLeastRows = 128, kMiddleRows = 256, kMostRanges = 8, kMostBytes = 4 << 20;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The units of the ranges of a share.
std::vector<int64_t> range_units(int64_t owned, int64_t most, int64_t rows_per_unit) {
  const auto units_of = [&](int64_t rows) { return divide_up(rows, rows_per_unit); };
  if (owned < 2 * units_of(kLeastRows)) return {std::min(std::max<int64_t>(owned, 1), most)};
  const int64_t end = std::min(units_of(kEndRows), most), middle = owned - 2 * end;
  // While the transfer takes as long as the product, the wire waits for the largest range.
  const int64_t wanted = std::clamp(owned / 4, units_of(kLeastRows), units_of(kMiddleRows)),
                each = std::min(std::max(wanted, middle / kMostRanges), most), ranges = divide_up(middle, each);
  std::vector<int64_t> units = {end};
  for (int64_t range = 0; range < ranges; ++range) units.push_back((middle + range) / ranges);
  units.push_back(end);
  return units;
}

}  // namespace

ProducedParts parts_of(const RowProduct& product, const Group& group, int64_t rows) {
  const auto element_bytes = static_cast<int64_t>(product.options.dtype().itemsize());
  const int64_t elements_per_unit = std::max<int64_t>(product.width, 1) * product.unit;
  const int64_t most = kMostBytes / element_bytes, most_units = std::max<int64_t>(1, most / elements_per_unit);
  const int64_t owned = divide_up(product.rows / product.unit, group.size());
  std::vector<int64_t> ranges = rows == 0 ? range_units(owned, most_units, product.unit)
                                          : std::vector{std::min(divide_up(rows, product.unit), most_units)};
  for (int64_t& range : ranges) range = std::min(range * elements_per_unit, most);
  return {group, product.rows * product.width, element_bytes, ranges};
}

// Parts end within units where messages do. Such a unit is computed with the part that comes first.
void produce(const RowProduct& product, const at::Tensor& output, Production& production) {
  const int64_t elements_per_unit = product.width * product.unit;
  std::vector<bool> written(static_cast<size_t>(product.rows / product.unit));
  const auto is_written = [&](int64_t unit) { return written[static_cast<size_t>(unit)]; };
  for (int64_t number = 0; number < production.parts().size(); ++number) {
    const Range part = production.parts()[number];
    if (part.size() > 0) {
      Range units{part.begin / elements_per_unit, divide_up(part.end, elements_per_unit)};
      while (units.size() > 0 && is_written(units.begin)) ++units.begin;
      while (units.size() > 0 && is_written(units.end - 1)) --units.end;
      const Range rows{units.begin * product.unit, units.end * product.unit};
      if (rows.size() > 0) product.some(output.narrow(0, rows.begin, rows.size()), rows);
      std::fill(written.begin() + units.begin, written.begin() + units.end, true);
    }
    production.release();
  }
}

}  // namespace axonn
