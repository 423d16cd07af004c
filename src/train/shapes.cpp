#include <algorithm>
#include <array>
#include <cmath>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/train/picture_data.hpp"

namespace axonn {
namespace {

constexpr std::array kClasses = {"disc", "square", "triangle", "cross"};

// How far (x, y) lies outside a shape of radius 1 around the origin; negative inside.
double outside(size_t shape, double x, double y) {
  switch (shape) {
    case 0:
      return std::hypot(x, y) - 1;
    case 1:
      return std::max(std::abs(x), std::abs(y)) - 0.85;
    case 2:
      return std::max(y - 0.7, std::abs(x) * 0.87 - (y + 1) * 0.5);
    default:
      return std::max(std::min(std::abs(x), std::abs(y)) - 0.3, std::max(std::abs(x), std::abs(y)) - 1);
  }
}

class Shapes : public PictureSource {
 public:
  Shapes(int64_t size, int64_t count, uint64_t seed) : size_(size), count_(count), seed_(seed) {}

  int64_t count() const override { return count_; }
  int64_t size() const override { return size_; }
  std::vector<std::string> classes() const override { return {kClasses.begin(), kClasses.end()}; }
  uint64_t fingerprint() const override { return seed_ ^ static_cast<uint64_t>(count_ << 16 | size_); }
  std::string description() const override {
    return detail::concatenate("shapes: ", count_, " pictures of ", size_, " x ", size_, " in ", kClasses.size(), " classes");
  }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const uint32_t stream = philox_stream("picture", "shapes");
    const auto draw = [&](uint32_t step) {
      const auto words = philox(seed_, static_cast<uint64_t>(index), step, stream);
      return std::array{to_uniform(words[0]), to_uniform(words[1]), to_uniform(words[2]), to_uniform(words[3])};
    };
    const auto place = draw(0), colour = draw(1), ground = draw(2);
    const auto shape = static_cast<size_t>(place[0] * kClasses.size());
    const auto side = static_cast<double>(size_);
    const double radius = side * (0.2 + 0.2 * place[1]), x = radius + (side - 2 * radius) * place[2],
                 y = radius + (side - 2 * radius) * place[3];
    for (int64_t row = 0; row < size_; ++row)
      for (int64_t column = 0; column < size_; ++column) {
        const double distance =
            radius * outside(shape, (static_cast<double>(column) + 0.5 - x) / radius, (static_cast<double>(row) + 0.5 - y) / radius);
        const double cover = std::clamp(0.5 - distance, 0.0, 1.0);  // an edge of one pixel
        for (size_t channel = 0; channel < 3; ++channel)
          pixels[static_cast<size_t>(3 * (row * size_ + column)) + channel] =
              static_cast<uint8_t>(std::lround(255 * (cover * (0.4 + 0.6 * colour[channel]) + (1 - cover) * 0.3 * ground[channel])));
      }
    return static_cast<int64_t>(shape);
  }

 private:
  int64_t size_;
  int64_t count_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<PictureSource> make_shapes(int64_t size, int64_t count, uint64_t seed) {
  AXONN_CHECK(size >= 4 && count > 0, "train.shapes", "needs pictures of at least 4 x 4 and at least one, got ", size, " and ", count);
  return std::make_unique<Shapes>(size, count, seed);
}

PictureDraw draw_picture(uint64_t number, uint64_t seed, int64_t count, bool mirror) {
  const auto words = philox(seed, number, 0, philox_stream("sample", "picture"));
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return {.index = static_cast<int64_t>(static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(count) >> 64),
          .mirrored = mirror && (words[2] & 1) != 0};
}

}  // namespace axonn
