#include <algorithm>
#include <cmath>
#include <iterator>

#include "fit/measured_groups.hpp"
#include "output/columns.hpp"
#include "output/svg.hpp"

void write_validation_plot(const std::string& file, const std::vector<MeasuredGroup>& all) {
  constexpr int kSize = 520, kEdge = 50;
  constexpr const char* kColors[] = {"#5b7fa6", "#c8553d", "#8a6fa8", "#4f9d69", "#c9a227", "#7a7a7a"};
  double least = 1e300, most = 0;
  for (const MeasuredGroup& one : all)
    for (const axonn::MeasuredRun& run : one.runs) {
      least = std::min(least, run.seconds / 1.5);
      most = std::max(most, run.seconds * 1.5);
    }
  const auto at = [&](double seconds) {
    return (kSize - 2 * kEdge) * std::log(std::clamp(seconds, least, most) / least) / std::log(most / least);
  };
  Svg svg(kSize, kSize);
  svg.text(8, 20, "seconds of a step: measured across, predicted up, of runs that the fit did not see");
  svg.line(kEdge, kSize - kEdge, kSize - kEdge, kEdge, "#bbbbbb");
  for (size_t kind = 0; kind < all.size(); ++kind) {
    const std::string color = kColors[kind % std::size(kColors)];
    const double y = kEdge + 16.0 * static_cast<double>(kind);
    svg.text(kEdge + 10, y, all[kind].name());
    svg.circle(kEdge, y - 4, 4, color);
    for (size_t i = 0; i < all[kind].runs.size(); ++i) {
      const double seconds = all[kind].runs[i].seconds;
      svg.circle(kEdge + at(seconds), kSize - kEdge - at(seconds * all[kind].judged()[i]), 2.5, color);
    }
  }
  svg.text(kEdge, kSize - kEdge + 20, fixed_text(least, 2) + " s");
  svg.text(kSize - kEdge, kSize - kEdge + 20, fixed_text(most, 1) + " s", "end");
  svg.write(file);
}
