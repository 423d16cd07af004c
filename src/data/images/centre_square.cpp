#include "data/images/centre_square.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace axonn {
namespace {

// The source pixels of one result pixel along a line: weights of pixels [first, first +
// weights.size()), with sum 1.
struct Window {
  int64_t first = 0;
  std::vector<float> weights;
};

Window covered(double begin, double end, int64_t from) {
  Window window{.first = static_cast<int64_t>(begin), .weights = {}};
  const int64_t last = std::min(static_cast<int64_t>(std::ceil(end)), from);
  for (int64_t at = window.first; at < last; ++at) {
    const double overlap = std::min(end, static_cast<double>(at + 1)) - std::max(begin, static_cast<double>(at));
    window.weights.push_back(static_cast<float>(overlap / (end - begin)));
  }
  return window;
}

Window between(double centre, int64_t from) {
  if (from == 1) return {.first = 0, .weights = {1}};
  const double place = std::clamp(centre - 0.5, 0.0, static_cast<double>(from - 1));
  const int64_t first = std::min(static_cast<int64_t>(place), from - 2);
  const auto second = static_cast<float>(place - static_cast<double>(first));
  return {.first = first, .weights = {1 - second, second}};
}

std::vector<Window> windows(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<Window> all;
  for (int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<double>(i);
    all.push_back(from >= to ? covered(at * scale, (at + 1) * scale, from) : between((at + 0.5) * scale, from));
  }
  return all;
}

}  // namespace

void centre_square(const Image& image, int64_t size, std::span<uint8_t> pixels) {
  const int64_t side = std::min(image.width, image.height), line = image.width * 3;
  const uint8_t* corner = image.pixels.data() + (image.height - side) / 2 * line + (image.width - side) / 2 * 3;
  const std::vector<Window> all = windows(side, size);
  std::vector<float> band(static_cast<size_t>(side * 3));  // sum of the source rows that one result row covers
  for (int64_t y = 0; y < size; ++y) {
    const Window& rows = all[static_cast<size_t>(y)];
    std::ranges::fill(band, 0.0F);
    for (size_t row = 0; row < rows.weights.size(); ++row) {
      const uint8_t* source = corner + (rows.first + static_cast<int64_t>(row)) * line;
      for (size_t i = 0; i < band.size(); ++i) band[i] += rows.weights[row] * static_cast<float>(source[i]);
    }
    for (int64_t x = 0; x < size; ++x) {
      const Window& columns = all[static_cast<size_t>(x)];
      for (int64_t channel = 0; channel < 3; ++channel) {
        float sum = 0;
        for (size_t i = 0; i < columns.weights.size(); ++i)
          sum +=
              columns.weights[i] * band[static_cast<size_t>((columns.first + static_cast<int64_t>(i)) * 3 + channel)];
        pixels[static_cast<size_t>((y * size + x) * 3 + channel)] =
            static_cast<uint8_t>(std::clamp(std::lround(sum), 0L, 255L));
      }
    }
  }
}

}  // namespace axonn
