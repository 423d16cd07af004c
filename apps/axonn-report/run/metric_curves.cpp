#include "run/metric_curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::ordered_json;

// Six digits are enough for a curve, and halve the page.
double rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return std::strtod(text, nullptr);
}

double value_of(const axonn::NamedNumbers& numbers, std::string_view key) {
  const auto found = std::ranges::find_if(numbers, [&](const auto& each) { return each.first == key; });
  return found != numbers.end() && std::isfinite(found->second) ? found->second : 0;
}

}  // namespace

void MetricCurves::Bin::add(double value) {
  least = count == 0 ? value : std::min(least, value);
  most = count == 0 ? value : std::max(most, value);
  sum += value;
  last = value;
  ++count;
}

void MetricCurves::Bin::join(const Bin& later) {
  least = std::min(least, later.least);
  most = std::max(most, later.most);
  sum += later.sum;
  last = later.last;
  count += later.count;
}

void MetricCurves::add(int64_t step, const axonn::NamedNumbers& numbers) {
  if (last_step_ == 0) first_step_ = step;
  last_step_ = step;
  make_room(step);
  count_up(numbers);
  for (const auto& [key, number] : numbers) add(key, step, number);
  add(kTerms, step, terms_so_far_);
  add(kSeconds, step, seconds_so_far_);
}

// Seconds of training, of saves and of validation.
void MetricCurves::count_up(const axonn::NamedNumbers& numbers) {
  if (value_of(numbers, "images_per_second") > 0) terms_ = "images";
  const double step = value_of(numbers, "seconds.step");
  terms_so_far_ += value_of(numbers, terms_ + "_per_second") * step;
  seconds_so_far_ += step + value_of(numbers, "seconds.checkpoint") + value_of(numbers, "seconds.validation");
}

void MetricCurves::make_room(int64_t step) {
  while ((step - first_step_) / width_ >= most_bins_) {
    width_ *= 2;
    for (auto& [key, curve] : curves_) {
      std::vector<Bin> joined;
      for (Bin& bin : curve.bins) {
        bin.number /= 2;
        if (!joined.empty() && joined.back().number == bin.number)
          joined.back().join(bin);
        else
          joined.push_back(bin);
      }
      curve.bins = std::move(joined);
    }
  }
}

void MetricCurves::add(const std::string& key, int64_t step, double number) {
  const auto [found, is_new] = curves_.try_emplace(key);
  if (is_new) keys_.push_back(key);
  Curve& curve = found->second;
  if (!std::isfinite(number)) {
    if (curve.not_finite++ == 0) curve.first_not_finite = step;
    return;
  }
  const int64_t bin = (step - first_step_) / width_;
  if (curve.bins.empty() || curve.bins.back().number != bin) curve.bins.push_back({.number = bin});
  curve.bins.back().add(number);
}

// Bins are named by their places on the axes, unless the curve has all of them. There is only a
// mean where every bin has one number.
Json MetricCurves::curve_json(const Curve& curve) const {
  const std::vector<Bin>& axis = curves_.at("step").bins;
  Json places = Json::array(), mean = Json::array(), least = Json::array(), most = Json::array();
  double sum = 0, best = 0;
  int64_t count = 0;
  size_t place = 0;
  for (const Bin& bin : curve.bins) {
    while (axis[place].number < bin.number) ++place;
    places.push_back(place);
    mean.push_back(rounded(bin.sum / static_cast<double>(bin.count)));
    least.push_back(rounded(bin.least));
    most.push_back(rounded(bin.most));
    best = count == 0 ? bin.least : std::min(best, bin.least);
    sum += bin.sum;
    count += bin.count;
  }
  Json json = {{"mean", std::move(mean)}};
  if (curve.bins.size() != axis.size()) json["at"] = std::move(places);
  if (std::ranges::any_of(curve.bins, [](const Bin& bin) { return bin.count > 1; })) {
    json["least"] = std::move(least);
    json["most"] = std::move(most);
  }
  if (count > 0) {
    json["last"] = rounded(curve.bins.back().last);
    json["lowest"] = rounded(best);
    json["average"] = rounded(sum / static_cast<double>(count));
  }
  if (curve.not_finite > 0) json["not_finite"] = {curve.not_finite, curve.first_not_finite};
  return json;
}

Json MetricCurves::json() const {
  Json axes = Json::object(), all = Json::object();
  for (const std::string& key : keys_) {
    if (key != "step" && key != kTerms && key != kSeconds) {
      all[key] = curve_json(curves_.at(key));
      continue;
    }
    Json values = Json::array();
    for (const Bin& bin : curves_.at(key).bins) values.push_back(key == "step" ? bin.last : rounded(bin.last));
    axes[key] = std::move(values);
  }
  return {{"terms", terms_}, {"axes", std::move(axes)}, {"curves", std::move(all)}};
}
