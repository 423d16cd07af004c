#include "network/unet/unet_layers.hpp"

#include <algorithm>
#include <utility>

namespace axonn {
namespace {

using Kind = UnetStage::Kind;
constexpr int64_t kTaps = 9;  // 3x3 convolution

WorkSplit split_over(Axis axis) { return axis == Axis::x ? WorkSplit::over_x : WorkSplit::over_y; }

bool equal_but_for_count(const LayerWork& a, LayerWork b) {
  b.count = a.count;
  return a == b;
}

// The rows of one network. Names carry the height of the images: "residual.in 16x16".
class UnetRows {
 public:
  explicit UnetRows(const UnetShape& shape) : shape_(shape) {}

  void begin(const std::string& kind, int64_t size, bool in_block) {
    prefix_ = kind;
    suffix_ = size > 0 ? " " + std::to_string(size) + "x" + std::to_string(size) : "";
    pixels_ = static_cast<double>(size) * static_cast<double>(size);
    in_block_ = in_block;
  }
  double pixels() const { return pixels_; }

  // From `from` to the other axis. rows_in and rows_out are rows per unit.
  LayerWork& product(const std::string& name, Axis from, int64_t in, int64_t out, int64_t taps, double rows_in,
                     double rows_out) {
    LayerWork& row = add(name);
    row.k = in, row.n = out, row.taps = taps, row.rows_in = rows_in, row.rows_out = rows_out;
    row.transposed = from == Axis::x;
    row.flops = 2 * row.weights() * rows_out;
    return row;
  }
  LayerWork& conv3x3(const std::string& name, Axis from, int64_t in, int64_t out) {
    return product(name, from, in, out, kTaps, pixels_, pixels_);
  }
  LayerWork& elementwise(const std::string& name, Axis axis, double elements) {
    LayerWork& row = add(name);
    row.split = split_over(axis);
    row.elements = elements;
    return row;
  }
  // Statistics read the channels once; normalising reads and writes them. A SiLU after it also
  // reads and writes them.
  LayerWork& norm(const std::string& name, Axis axis, std::vector<int64_t> segments, bool silu) {
    int64_t channels = 0;
    for (const int64_t segment : segments) channels += segment;
    LayerWork& row = elementwise(name, axis, (silu ? 5 : 3) * pixels_ * static_cast<double>(channels));
    row.norm_groups = shape_.groups;
    row.segments = std::move(segments);
    return row;
  }
  void moved(const std::string& name, Axis from, double elements) { elementwise(name, from, 0).moved = elements; }

  LayerTable table() && {
    LayerTable table;
    for (LayerWork& row : rows_) {
      const auto equal =
          std::ranges::find_if(table, [&](const LayerWork& other) { return equal_but_for_count(other, row); });
      if (equal == table.end())
        table.push_back(std::move(row));
      else
        ++equal->count;
    }
    return table;
  }

 private:
  LayerWork& add(const std::string& name) {
    rows_.push_back({.name = prefix_ + (name.empty() ? "" : "." + name) + suffix_, .in_block = in_block_});
    return rows_.back();
  }

  const UnetShape& shape_;
  std::string prefix_, suffix_;
  double pixels_ = 0;
  bool in_block_ = false;
  LayerTable rows_;
};

// Whole -> Y -> X -> Y, and a copy over X for every other level.
void add_embeddings(UnetRows& rows, const UnetShape& shape) {
  const int64_t e = shape.embedding();
  rows.begin("time", 0, /*in_block=*/false);
  rows.product("in", Axis::y, shape.base, e, 1, 1, 1).gives_input_gradient = false;
  rows.product("out", Axis::x, e, e, 1, 1, 1);
  if (shape.classes > 0) {
    LayerWork& classes = rows.product("classes", Axis::x, shape.classes, e, 1, 1, 1);
    classes.flops = 0;  // a lookup
    classes.gives_input_gradient = false;
  }
  rows.moved("embedding moved", Axis::y, static_cast<double>(e));
}

void add_residual(UnetRows& rows, const UnetShape& shape, const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  const double in = rows.pixels() * static_cast<double>(stage.in), out = rows.pixels() * static_cast<double>(stage.out);
  if (stage.skip > 0) rows.elementwise("concatenate", a, 2 * in);
  const auto segments = stage.skip > 0 ? std::vector{stage.skip, stage.in - stage.skip} : std::vector{stage.in};
  rows.norm("norm_in", a, segments, /*silu=*/true);
  rows.conv3x3("in", a, stage.in, stage.out);
  rows.product("embedding", a, shape.embedding(), shape.conditioning(stage.out), 1, 1, 1);
  rows.elementwise("bias, embedding", b, (shape.scale_shift ? 6 : 4) * out);
  rows.norm("norm_out", b, {stage.out}, /*silu=*/true);
  rows.conv3x3("out", b, stage.out, stage.out);
  rows.elementwise("bias, residual", a, 5 * out);
  if (stage.in == stage.out) return;
  rows.product("shortcut", a, stage.in, stage.out, 1, rows.pixels(), rows.pixels());
  rows.elementwise("shortcut bias", b, 2 * out);
  rows.moved("shortcut moved", b, out);
}

void add_attention(UnetRows& rows, const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  const double pixels = rows.pixels(), features = pixels * static_cast<double>(stage.in);
  rows.norm("norm", a, {stage.in}, /*silu=*/false);
  rows.product("qkv", a, stage.in, 3 * stage.in, 1, pixels, pixels);
  LayerWork& attention = rows.elementwise("attention", b, (6 + 4) * features);  // with qkv's bias
  attention.flops = 4 * pixels * features;
  attention.queries = features;
  attention.keys_values = 2 * features;
  rows.product("projection", b, stage.in, stage.in, 1, pixels, pixels);
  rows.elementwise("bias, residual", a, 5 * features);
}

void add_resampling(UnetRows& rows, const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  const bool up = stage.kind == Kind::up;
  const double rows_in = up ? 4 * rows.pixels() : rows.pixels(), rows_out = up ? rows_in : rows.pixels() / 4;
  if (up) rows.elementwise("doubled", a, 5 * rows.pixels() * static_cast<double>(stage.in));
  rows.product("", a, stage.in, stage.out, kTaps, rows_in, rows_out);
  rows.elementwise("bias", b, 2 * rows_out * static_cast<double>(stage.out));
}

void add_last(UnetRows& rows, const UnetStage& stage) {
  rows.norm("norm", Axis::y, {stage.in}, /*silu=*/true);
  rows.conv3x3("", Axis::y, stage.in, stage.out).whole_output = true;
}

void add_first(UnetRows& rows, const UnetStage& stage) {
  LayerWork& first = rows.conv3x3("", Axis::x, stage.in, stage.out);
  first.whole_input = true;
  first.gives_input_gradient = false;
}

}  // namespace

LayerTable layer_table(const UnetShape& shape) {
  check_unet(shape);
  UnetRows rows(shape);
  add_embeddings(rows, shape);
  for (const UnetStage& stage : unet_stages(shape)) {
    switch (stage.kind) {
      case Kind::first:
        rows.begin("first", stage.size, /*in_block=*/false);
        add_first(rows, stage);
        break;
      case Kind::residual:
        rows.begin("residual", stage.size, /*in_block=*/true);
        add_residual(rows, shape, stage);
        break;
      case Kind::attention:
        rows.begin("attention", stage.size, /*in_block=*/true);
        add_attention(rows, stage);
        break;
      case Kind::down:
      case Kind::up:
        rows.begin(stage.kind == Kind::up ? "up" : "down", stage.size, /*in_block=*/true);
        add_resampling(rows, stage);
        break;
      case Kind::last:
        rows.begin("last", stage.size, /*in_block=*/false);
        add_last(rows, stage);
        break;
    }
  }
  return std::move(rows).table();
}

}  // namespace axonn
