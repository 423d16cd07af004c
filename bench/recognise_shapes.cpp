// Counts the images of a sheet (from `unet sample` after training on shapes) that show a shape. For
// each image, it searches places and sizes for the best disc, square, triangle or cross of two
// colours, with both colours by least squares. The image counts as recognised if the residual is
// small and the colours lie in the ranges of real shapes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/data/images/image_data.hpp>
#include <axonn/data/images/image_file.hpp>
#include <axonn/data/images/shapes.hpp>

namespace {

constexpr int64_t kLine = 2;        // pixels between the images of a sheet
constexpr double kMostLeft = 0.06;  // root mean square of the residual; values lie in [0, 1]
constexpr double kColourTolerance = 0.1;

using Values = std::vector<std::array<double, 3>>;  // pixels of an image, from 0 to 1

struct Fit {
  axonn::Shape shape;
  double left = 1e9;
};

// Least-squares fit of both colours for this cover.
Fit with_best_colours(axonn::Shape shape, const std::vector<double>& cover, const Values& values) {
  double aa = 0, ab = 0, bb = 0;
  std::array<double, 3> av{}, bv{}, vv{};
  for (size_t i = 0; i < cover.size(); ++i) {
    const double a = cover[i], b = 1 - a;
    aa += a * a, ab += a * b, bb += b * b;
    for (size_t c = 0; c < 3; ++c) {
      av[c] += a * values[i][c];
      bv[c] += b * values[i][c];
      vv[c] += values[i][c] * values[i][c];
    }
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant < 1e-9) return {shape};
  double left = 0;
  for (size_t c = 0; c < 3; ++c) {
    shape.colour[c] = (av[c] * bb - bv[c] * ab) / determinant;
    shape.ground[c] = (bv[c] * aa - av[c] * ab) / determinant;
    left += vv[c] - shape.colour[c] * av[c] - shape.ground[c] * bv[c];
  }
  return {shape, std::sqrt(std::max(left, 0.0) / (3.0 * static_cast<double>(cover.size())))};
}

// Coarse places and sizes first, then finer ones around the best.
Fit best_fit(axonn::ShapeKind kind, const Values& values, int64_t size) {
  const auto side = static_cast<double>(size);
  Fit best;
  const auto look = [&](double radius, double x, double y) {
    const axonn::Shape shape{.kind = kind, .radius = radius, .x = x, .y = y};
    const Fit fit = with_best_colours(shape, axonn::shape_cover(shape, size), values);
    if (fit.left < best.left) best = fit;
  };
  for (double radius = 0.18 * side; radius <= 0.44 * side; radius += 0.04 * side)
    for (double x = 0.75 * radius; x <= side - 0.75 * radius; x += 1)
      for (double y = 0.75 * radius; y <= side - 0.75 * radius; y += 1) look(radius, x, y);
  for (const double step : {0.5, 0.25}) {
    const axonn::Shape at = best.shape;
    for (int r = -2; r <= 2; ++r)
      for (int x = -2; x <= 2; ++x)
        for (int y = -2; y <= 2; ++y) look(std::max(at.radius + r * step * 0.6, 1.0), at.x + x * step, at.y + y * step);
  }
  return best;
}

bool of_a_shapes_colours(const axonn::Shape& shape) {
  for (size_t c = 0; c < 3; ++c)
    if (shape.colour[c] < 0.4 - kColourTolerance || shape.colour[c] > 1 + kColourTolerance ||
        shape.ground[c] < -kColourTolerance || shape.ground[c] > 0.3 + kColourTolerance)
      return false;
  return true;
}

Fit recognise(const Values& values, int64_t size) {
  Fit best;
  for (size_t kind = 0; kind < axonn::kShapeKinds.size(); ++kind)
    if (const Fit fit = best_fit(static_cast<axonn::ShapeKind>(kind), values, size); fit.left < best.left) best = fit;
  return best;
}

struct Tally {
  int64_t images = 0, recognised = 0;
  std::array<int64_t, axonn::kShapeKinds.size()> kinds = {};

  void add(const Values& values, int64_t size) {
    const Fit fit = recognise(values, size);
    ++images;
    if (fit.left > kMostLeft || !of_a_shapes_colours(fit.shape)) return;
    ++recognised;
    ++kinds[static_cast<size_t>(fit.shape.kind)];
  }

  void print(const std::string& name) const {
    std::printf("%s: %lld of %lld recognised (%.0f%%)", name.c_str(), static_cast<long long>(recognised),
                static_cast<long long>(images), 100.0 * static_cast<double>(recognised) / static_cast<double>(images));
    for (size_t kind = 0; kind < kinds.size(); ++kind)
      std::printf("%s %lld %s", kind == 0 ? ":" : ",", static_cast<long long>(kinds[kind]),
                  std::string(axonn::kShapeKinds[kind]).c_str());
    std::printf("\n");
  }
};

Values cut(const axonn::Image& sheet, int64_t left, int64_t top, int64_t size) {
  Values values;
  for (int64_t y = top; y < top + size; ++y)
    for (int64_t x = left; x < left + size; ++x) {
      auto& value = values.emplace_back();
      for (int64_t c = 0; c < 3; ++c)
        value[static_cast<size_t>(c)] = sheet.pixels[static_cast<size_t>(3 * (y * sheet.width + x) + c)] / 255.0;
    }
  return values;
}

Tally of_sheet(const axonn::Image& sheet, int64_t size, int64_t count) {
  AXONN_CHECK((sheet.width + kLine) % (size + kLine) == 0 && (sheet.height + kLine) % (size + kLine) == 0,
              "recognise_shapes", "a sheet of ", sheet.width, " x ", sheet.height, " does not hold images of ", size,
              " x ", size, "; name their --size");
  const int64_t columns = (sheet.width + kLine) / (size + kLine), rows = (sheet.height + kLine) / (size + kLine);
  Tally tally;
  for (int64_t i = 0; i < columns * rows && (count == 0 || i < count); ++i)
    tally.add(cut(sheet, i % columns * (size + kLine), i / columns * (size + kLine), size), size);
  return tally;
}

// Tests the method on real shapes, and on mixtures of two shapes.
void check_itself(int64_t size) {
  const auto source = axonn::make_shapes(size, 128, 99);
  std::vector<uint8_t> one(static_cast<size_t>(3 * size * size)), other = one;
  Tally real, mixed;
  for (int64_t i = 0; i < source->count(); i += 2) {
    source->read(i, one);
    source->read(i + 1, other);
    Values values, halves;
    for (size_t p = 0; p < one.size(); p += 3) {
      values.push_back({one[p] / 255.0, one[p + 1] / 255.0, one[p + 2] / 255.0});
      halves.push_back(
          {(one[p] + other[p]) / 510.0, (one[p + 1] + other[p + 1]) / 510.0, (one[p + 2] + other[p + 2]) / 510.0});
    }
    real.add(values, size);
    mixed.add(halves, size);
  }
  real.print("shapes themselves");
  mixed.print("two shapes mixed");
}

}  // namespace

int main(int argc, char** argv) {
  std::string sheet;
  int64_t size = 16, count = 0;
  CLI::App app("Counts the images of a sheet that show one shape in its colours.", "recognise_shapes");
  app.add_option("sheet", sheet, "PNG of `unet sample`; without it, real and mixed shapes are tested");
  app.add_option("--size", size, "height and width of an image (default: 16)");
  app.add_option("--count", count, "number of images; 0: all that fit");
  try {
    if (const auto text = axonn::parse_command_line(app, {argv, static_cast<size_t>(argc)})) {
      std::printf("%s", text->c_str());
      return 0;
    }
    if (sheet.empty())
      check_itself(size);
    else
      of_sheet(axonn::read_image(sheet), size, count).print(sheet);
    return 0;
  } catch (const axonn::Error& error) {
    std::fprintf(stderr, "recognise_shapes: %s\n", error.sentence().c_str());
    return 2;
  }
}
