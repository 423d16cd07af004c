#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <axonn/core/json/json_numbers.hpp>

// The curves of a run's metrics, thinned while they are read: each curve has a limited number of
// bins of equally many steps, however long the run is. A bin keeps the least and the greatest
// number, so that no spike is lost.
class MetricCurves {
 public:
  // Keys of the page for the axes: all terms and seconds up to a step.
  static constexpr const char *kTerms = "terms so far", *kSeconds = "seconds so far";

  explicit MetricCurves(int64_t most_bins) : most_bins_(most_bins) {}

  // Numbers of a step, which comes after those added before.
  void add(int64_t step, const axonn::NamedNumbers& numbers);

  int64_t last_step() const { return last_step_; }  // 0: none
  // "tokens" or "images"; what the run counts per second.
  const std::string& terms() const { return terms_; }
  // {"axes": {"step": [...], ...}, "curves": {key: {"mean": [...], ...}, ...}}
  nlohmann::ordered_json json() const;

 private:
  struct Bin {
    int64_t number = 0;  // each has `width_` steps
    int64_t count = 0;   // finite numbers
    double least = 0, most = 0, sum = 0, last = 0;
    void add(double value);
    void join(const Bin& later);
  };
  struct Curve {
    std::vector<Bin> bins;
    int64_t not_finite = 0, first_not_finite = 0;  // steps: how many, and the first of them
  };

  void add(const std::string& key, int64_t step, double number);
  void count_up(const axonn::NamedNumbers& numbers);
  void make_room(int64_t step);
  nlohmann::ordered_json curve_json(const Curve& curve) const;

  int64_t most_bins_, width_ = 1, first_step_ = 0, last_step_ = 0;
  double terms_so_far_ = 0, seconds_so_far_ = 0;
  std::string terms_ = "tokens";
  std::vector<std::string> keys_;  // in the order in which they came
  std::map<std::string, Curve> curves_;
};
