#include "axonn/data/images/image_sheet.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.image_sheet";
constexpr int64_t kLine = 2;  // pixels between two images

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "(";
  for (const int64_t size : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + ")";
}

int64_t near_square(int64_t count) {
  auto columns = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  while (columns * columns < count) ++columns;
  return columns;
}

uint8_t to_byte(double value) { return static_cast<uint8_t>(std::lround(std::clamp((value + 1) * 127.5, 0.0, 255.0))); }

}  // namespace

Image make_sheet(const at::Tensor& images, int64_t columns) {
  AXONN_CHECK(images.dim() == 4 && images.size(3) == 3 && images.numel() > 0 && images.is_floating_point(), kWhere,
              "a sheet takes images of (count, height, width, 3), got ", shape_text(images));
  AXONN_CHECK(columns >= 0, kWhere, "a sheet cannot have ", columns, " columns");
  const int64_t count = images.size(0), height = images.size(1), width = images.size(2);
  columns = columns == 0 ? near_square(count) : std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  Image sheet{.width = columns * (width + kLine) - kLine, .height = rows * (height + kLine) - kLine, .pixels = {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.width * sheet.height * 3), 255);

  const at::Tensor values = images.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* value = values.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    AXONN_CHECK(std::all_of(value, value + height * width * 3, [](double each) { return std::isfinite(each); }), kWhere,
                "image ", i, " of ", count, " holds values that are not finite");
    for (int64_t y = 0; y < height; ++y, value += width * 3) {
      const int64_t left = i % columns * (width + kLine), top = i / columns * (height + kLine) + y;
      std::transform(value, value + width * 3, sheet.pixels.begin() + (top * sheet.width + left) * 3, to_byte);
    }
  }
  return sheet;
}

void save_sheet(const std::string& path, const at::Tensor& images, int64_t columns) {
  write_png(path, make_sheet(images, columns));
}

void save_strip(const std::string& path, const at::Tensor& trajectory) {
  AXONN_CHECK(trajectory.dim() == 5 && trajectory.size(1) > 0, kWhere,
              "a strip takes images of (count, moments, height, width, 3), got ", shape_text(trajectory));
  save_sheet(path, trajectory.flatten(0, 1), trajectory.size(1));
}

}  // namespace axonn
