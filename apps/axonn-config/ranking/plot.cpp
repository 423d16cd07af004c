// The parts of the top layouts' steps as bars, as SVG.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "planner_commands.hpp"
#include "output/svg.hpp"

namespace {

using axonn::PlannedLayout;

constexpr int kWidth = 980, kLabels = 210, kBar = 16, kRow = 24, kTop = 56;

struct Series {
  const char* name;
  const char* color;
  double (*seconds)(const PlannedLayout&);
};

const Series kSeries[] = {
    {"compute", "#5b7fa6", [](const PlannedLayout& l) { return l.time.compute(); }},
    {"exposed all-reduce", "#c8553d", [](const PlannedLayout& l) { return l.time.exposed_all_reduce; }},
    {"exposed gather / scatter", "#e0a458", [](const PlannedLayout& l) { return l.time.exposed_gather_scatter; }},
    {"exposed data", "#8a6fa8", [](const PlannedLayout& l) { return l.time.exposed_data; }},
    {"exposed context", "#4f9d69", [](const PlannedLayout& l) { return l.time.exposed_context; }},
};

// One "4x1x16x16,9.87" per line; '#' begins a comment.
std::map<std::string, double> read_measurements(const std::string& file) {
  std::map<std::string, double> measured;
  if (file.empty()) return measured;
  std::ifstream in(file);
  AXONN_CHECK(in, "axonn_config.plot", "cannot read ", file, ": ", axonn::why_not_read(file));
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const auto comma = line.find(',');
    double seconds = 0;
    const bool read = comma != std::string::npos &&
                      std::from_chars(line.data() + comma + 1, line.data() + line.size(), seconds).ec == std::errc();
    AXONN_CHECK(read && seconds > 0, "axonn_config.plot", file, ":", number,
                ": a line is a grid and its seconds, such as 4x1x16x16,9.87, got '", line, "'");
    measured[axonn::parse_grid_shape(line.substr(0, comma)).to_string()] = seconds;
  }
  return measured;
}

// Every measured grid must be one of the bars.
void check_shown(const std::map<std::string, double>& measured, const Ranking& ranking) {
  for (const auto& [grid, seconds] : measured)
    AXONN_CHECK(std::ranges::any_of(ranking.result.layouts,
                                    [&](const PlannedLayout& layout) { return layout.grid.to_string() == grid; }),
                "axonn_config.plot", ranking.line.output.measurements, " has grid ", grid, ", which is not among the ",
                ranking.result.layouts.size(), " layouts of the plot: raise --top, or remove its line");
}

}  // namespace

void write_plot(const std::string& file, const Ranking& ranking) {
  const auto measured = read_measurements(ranking.line.output.measurements);
  check_shown(measured, ranking);
  const auto& layouts = ranking.result.layouts;
  double longest = 1e-12;
  for (const PlannedLayout& layout : layouts) longest = std::max(longest, layout.time.seconds());
  for (const auto& [grid, seconds] : measured) longest = std::max(longest, seconds);
  const double scale = (kWidth - kLabels - 90) / longest;

  Svg svg(kWidth, kTop + kRow * static_cast<int>(layouts.size()) + 16);
  svg.text(8, 20, ranking.network.name + " on " + ranking.machine.name + ": seconds of a step");
  double x = 8;
  for (const Series& series : kSeries) {
    svg.rectangle(x, 30, 12, kBar, series.color);
    svg.text(x + 16, 43, series.name);
    x += 60 + 7.0 * static_cast<double>(std::string_view(series.name).size());
  }
  if (!measured.empty()) svg.text(x, 43, "| measured");
  int y = kTop;
  for (const PlannedLayout& layout : layouts) {
    const std::string grid = layout.grid.to_string();
    svg.text(kLabels - 8, y + 13, grid + "  " + place_text(layout), "end");
    x = kLabels;
    for (const Series& series : kSeries) {
      svg.rectangle(x, y, series.seconds(layout) * scale, kBar, series.color);
      x += series.seconds(layout) * scale;
    }
    svg.text(x + 6, y + 13, fixed_text(layout.time.seconds(), 3));
    if (const auto found = measured.find(grid); found != measured.end())
      svg.rectangle(kLabels + found->second * scale - 1.5, y - 2, 3, kBar, "#222222");
    y += kRow;
  }
  svg.write(file);
}
