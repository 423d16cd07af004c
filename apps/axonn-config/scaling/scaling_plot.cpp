#include <algorithm>
#include <cmath>

#include <axonn/core/text.hpp>

#include "planner_commands.hpp"
#include "scaling/scaling.hpp"
#include "output/svg.hpp"

namespace {

constexpr int kWidth = 720, kHeight = 420, kLeft = 80, kTop = 40, kBottom = 60, kRight = 30;
constexpr const char* kSpeed = "#5b7fa6";
constexpr const char* kIdeal = "#bbbbbb";

// Pixels of values on a logarithmic axis.
struct LogAxis {
  double least, most, from, to;
  double at(double value) const {
    if (most <= least) return (from + to) / 2;
    return from + (to - from) * std::log(value / least) / std::log(most / least);
  }
};

}  // namespace

void write_scaling_plot(const std::string& file, const axonn::NetworkModel& network, const axonn::Machine& machine,
                        const std::vector<ScalingRow>& rows) {
  std::vector<ScalingRow> shown;
  std::ranges::copy_if(rows, std::back_inserter(shown), [](const ScalingRow& row) { return row.layout.has_value(); });
  const auto gpus = [](const ScalingRow& row) { return static_cast<double>(row.gpus); };
  const auto speed = [](const ScalingRow& row) { return row.layout->tokens_per_second; };
  const auto ideal = [&](const ScalingRow& row) { return speed(row) / row.efficiency; };
  const LogAxis across = {gpus(shown.front()), gpus(shown.back()), kLeft, kWidth - kRight};
  const double least = speed(*std::ranges::min_element(shown, {}, speed));
  const double most = std::max(ideal(shown.back()), speed(*std::ranges::max_element(shown, {}, speed)));
  const LogAxis up = {least, most, kHeight - kBottom, kTop + 20};
  Svg svg(kWidth, kHeight);
  svg.text(8, 20,
           network.name + " on " + machine.name + ": " + network.tokens +
               " per second (grey: the first count's "
               "speed per GPU)");
  svg.line(across.at(gpus(shown.front())), up.at(ideal(shown.front())), across.at(gpus(shown.back())),
           up.at(ideal(shown.back())), kIdeal);
  for (size_t i = 0; i < shown.size(); ++i) {
    const double x = across.at(gpus(shown[i])), y = up.at(speed(shown[i]));
    if (i > 0) svg.line(across.at(gpus(shown[i - 1])), up.at(speed(shown[i - 1])), x, y, kSpeed);
    svg.circle(x, y, 4, kSpeed);
    svg.text(x, y + 20, axonn::with_unit(speed(shown[i])), "middle");
    svg.text(x, y + 34, fixed_text(100 * shown[i].efficiency, 0) + "%", "middle");
    svg.text(x, kHeight - 20, std::to_string(shown[i].gpus), "middle");
  }
  svg.text(kWidth / 2.0, kHeight - 4, "GPUs (" + machine.gpu + ")", "middle");
  svg.write(file);
}
