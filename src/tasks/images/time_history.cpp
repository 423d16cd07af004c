#include "axonn/tasks/images/time_history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

constexpr double kUniformShare = 0.001;

// p(t) from rows of losses.
std::vector<double> probabilities(const double* losses, int64_t times) {
  std::vector<double> result;
  for (int64_t t = 0; t < times; ++t) {
    const double* row = losses + t * TimeHistory::kLength;
    result.push_back(std::sqrt(std::inner_product(row, row + TimeHistory::kLength, row, 0.0) / TimeHistory::kLength));
  }
  const double sum = std::accumulate(result.begin(), result.end(), 0.0), uniform = 1 / static_cast<double>(times);
  for (double& p : result) p = sum > 0 ? (1 - kUniformShare) * p / sum + kUniformShare * uniform : uniform;
  return result;
}

}  // namespace

TimeHistory::TimeHistory(int64_t times)
    : times_(times),
      spec_{.dims = {Dim::whole(times), Dim::whole(kLength)}, .over_z = false},
      losses_(at::zeros({spec_.range_numel({}, {}, kRangeAlignment)}, at::kDouble)) {
  losses_.narrow(0, 0, times * kLength).fill_(std::numeric_limits<double>::quiet_NaN());
}

TimeHistory::Draw TimeHistory::draw(uint64_t seed, int64_t first, int64_t count) const {
  const bool uniform = !full();
  Draw result{.times = at::empty({count}, at::kLong),
              .weights = uniform ? at::Tensor() : at::empty({count}, at::kDouble)};
  std::vector<double> p, until;
  if (!uniform) {
    p = probabilities(losses_.const_data_ptr<double>(), times_);
    until.resize(p.size());
    std::partial_sum(p.begin(), p.end(), until.begin());
  }
  const uint32_t stream = philox_stream("sample", "time");
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = philox(seed, static_cast<uint64_t>(first + i), 0, stream)[0];
    int64_t& time = result.times.mutable_data_ptr<int64_t>()[i];
    time = static_cast<int64_t>(uint64_t{bits} * static_cast<uint64_t>(times_) >> 32);
    if (uniform) continue;
    const auto found = std::ranges::upper_bound(until, to_uniform(bits) * until.back());
    time = std::min(static_cast<int64_t>(found - until.begin()), times_ - 1);
    result.weights.mutable_data_ptr<double>()[i] = 1 / (p[static_cast<size_t>(time)] * static_cast<double>(times_));
  }
  return result;
}

void TimeHistory::record(int64_t time, double loss) {
  if (!std::isfinite(loss)) return;
  double* row = losses_.mutable_data_ptr<double>() + time * kLength;
  std::shift_left(row, row + kLength, 1);
  row[kLength - 1] = loss;
}

// Losses shift in at the end of a row, so its first place is filled last.
bool TimeHistory::full() const {
  for (int64_t t = 0; t < times_; ++t)
    if (std::isnan(losses_.const_data_ptr<double>()[t * kLength])) return false;
  return true;
}

CheckpointTensor TimeHistory::state() const { return {"importance/losses", spec_, losses_}; }

}  // namespace axonn
