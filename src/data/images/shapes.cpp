#include "axonn/data/images/shapes.hpp"

#include <algorithm>
#include <cmath>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/data/images/image_data.hpp"

namespace axonn {
namespace {

// Distance of (x, y) from a shape of radius 1 around the origin; negative inside.
double outside(ShapeKind kind, double x, double y) {
  switch (kind) {
    case ShapeKind::disc:
      return std::hypot(x, y) - 1;
    case ShapeKind::square:
      return std::max(std::abs(x), std::abs(y)) - 0.85;
    case ShapeKind::triangle:
      return std::max(y - 0.7, std::abs(x) * 0.87 - (y + 1) * 0.5);
    case ShapeKind::cross:
      return std::max(std::min(std::abs(x), std::abs(y)) - 0.3, std::max(std::abs(x), std::abs(y)) - 1);
  }
  return 0;
}

class Shapes : public ImageSource {
 public:
  Shapes(int64_t size, int64_t count, uint64_t seed) : size_(size), count_(count), seed_(seed) {}

  int64_t count() const override { return count_; }
  int64_t size() const override { return size_; }
  std::vector<std::string> classes() const override { return {kShapeKinds.begin(), kShapeKinds.end()}; }
  uint64_t fingerprint() const override { return seed_ ^ static_cast<uint64_t>(count_ << 16 | size_); }
  std::string description() const override {
    return detail::concatenate("shapes: ", count_, " images of ", size_, " x ", size_, " in ", kShapeKinds.size(),
                               " classes");
  }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const Shape shape = draw_shape(size_, static_cast<uint64_t>(index), seed_);
    const std::vector<double> cover = shape_cover(shape, size_);
    for (size_t pixel = 0; pixel < cover.size(); ++pixel)
      for (size_t channel = 0; channel < 3; ++channel)
        pixels[3 * pixel + channel] = static_cast<uint8_t>(
            std::lround(255 * (cover[pixel] * shape.colour[channel] + (1 - cover[pixel]) * shape.ground[channel])));
    return static_cast<int64_t>(shape.kind);
  }

 private:
  int64_t size_;
  int64_t count_;
  uint64_t seed_;
};

}  // namespace

Shape draw_shape(int64_t size, uint64_t number, uint64_t seed) {
  const uint32_t stream = philox_stream("picture", "shapes");
  const auto draw = [&](uint32_t step) {
    const auto words = philox(seed, number, step, stream);
    return std::array{to_uniform(words[0]), to_uniform(words[1]), to_uniform(words[2]), to_uniform(words[3])};
  };
  const auto place = draw(0), colour = draw(1), ground = draw(2);
  const auto side = static_cast<double>(size);
  Shape shape{.kind = static_cast<ShapeKind>(place[0] * kShapeKinds.size()), .radius = side * (0.2 + 0.2 * place[1])};
  shape.x = shape.radius + (side - 2 * shape.radius) * place[2];
  shape.y = shape.radius + (side - 2 * shape.radius) * place[3];
  for (size_t channel = 0; channel < 3; ++channel) {
    shape.colour[channel] = 0.4 + 0.6 * colour[channel];
    shape.ground[channel] = 0.3 * ground[channel];
  }
  return shape;
}

std::vector<double> shape_cover(const Shape& shape, int64_t size) {
  std::vector<double> cover;
  cover.reserve(static_cast<size_t>(size * size));
  for (int64_t row = 0; row < size; ++row)
    for (int64_t column = 0; column < size; ++column) {
      const double x = (static_cast<double>(column) + 0.5 - shape.x) / shape.radius;
      const double y = (static_cast<double>(row) + 0.5 - shape.y) / shape.radius;
      cover.push_back(std::clamp(0.5 - shape.radius * outside(shape.kind, x, y), 0.0, 1.0));
    }
  return cover;
}

std::unique_ptr<ImageSource> make_shapes(int64_t size, int64_t count, uint64_t seed) {
  AXONN_CHECK(size >= 4 && count > 0, "data.shapes", "needs images of at least 4 x 4 and at least one, got ", size,
              " and ", count);
  return std::make_unique<Shapes>(size, count, seed);
}

ImageDraw draw_image(uint64_t number, uint64_t seed, int64_t count, bool mirror) {
  const auto words = philox(seed, number, 0, philox_stream("sample", "picture"));
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return {.index = static_cast<int64_t>(static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(count) >> 64),
          .mirrored = mirror && (words[2] & 1) != 0};
}

}  // namespace axonn
