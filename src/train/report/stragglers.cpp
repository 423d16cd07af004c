#include "train/report/stragglers.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// The lower one of two: a slow rank of two is compared with the other.
double median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::optional<std::string> Stragglers::add_step(double seconds) {
  AXONN_ASSERT(!waited_.empty(), "a step whose waiting is not known");
  seconds_ += seconds - waited_.front();
  waited_.pop_front();
  if (++steps_ < kSteps) return std::nullopt;
  const double mine = std::exchange(seconds_, 0) / std::exchange(steps_, 0);
  const at::Tensor all = at::empty({everyone_.size()}, at::kDouble);
  everyone_.all_gather(at::scalar_tensor(mine, at::kDouble).view(1), all).wait();
  const std::vector<double> times(all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel());
  const double usual = median(times), most = usual * (1 + kTolerated);
  const auto slowest = std::ranges::max_element(times);
  if (*slowest <= most) return std::nullopt;

  const auto rank = static_cast<int>(slowest - times.begin());
  const auto others = std::ranges::count_if(times, [&](double time) { return time > most; }) - 1;
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "rank %d on host %s computes %.0f%% longer than the median of %d ranks: %.3g against %.3g s per step, "
                "mean of %d steps",
                rank, name_of_host(rank).c_str(), 100 * (*slowest / usual - 1), everyone_.size(), *slowest, usual,
                kSteps);
  std::string sentence = text.data();
  if (others > 0) sentence += "; " + std::to_string(others) + (others == 1 ? " other does too" : " others do too");
  return sentence;
}

std::string Stragglers::name_of_host(int rank) const {
  const at::Tensor name = at::zeros({64}, at::kByte);
  auto* const characters = reinterpret_cast<char*>(name.mutable_data_ptr<uint8_t>());
  if (everyone_.rank() == rank) gethostname(characters, static_cast<size_t>(name.numel() - 1));
  everyone_.broadcast(name, rank).wait();
  return characters;
}

}  // namespace axonn
