#include "axonn/layers/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/rotary_chains.hpp"
#include "layers/operation.hpp"

namespace axonn {

struct Rotary::Table {
  Tensor cosines, sines;  // (positions, features / 2)
};

struct Rotary::Tables {
  std::mutex lock;
  std::map<std::pair<c10::Device, at::ScalarType>, std::shared_ptr<const Table>,
           decltype([](const auto& a, const auto& b) {
             return std::tuple(a.first.type(), a.first.index(), a.second) <
                    std::tuple(b.first.type(), b.first.index(), b.second);
           })>
      by_place;
};

Rotary::Rotary(int64_t features, RotaryOptions options)
    : features_(features), options_(options), tables_(std::make_unique<Tables>()) {
  AXONN_CHECK(features > 0 && features % 2 == 0, "layers.rotary", "a head must have an even number of features, got ",
              features);
}

Rotary::~Rotary() = default;

std::vector<double> Rotary::frequencies() const {
  const auto [theta, factor, low, high, original] = options_;
  std::vector<double> all;
  for (int64_t pair = 0; pair < features_ / 2; ++pair) {
    const double plain = std::pow(theta, -2 * static_cast<double>(pair) / static_cast<double>(features_));
    const double turns = static_cast<double>(original) * plain / (2 * std::numbers::pi);  // in the original text
    const double kept = factor == 1 ? 1 : std::clamp((turns - low) / (high - low), 0.0, 1.0);
    all.push_back(kept * plain + (1 - kept) * plain / factor);
  }
  return all;
}

std::shared_ptr<const Rotary::Table> Rotary::table_for(int64_t positions, const Tensor& heads) const {
  const std::lock_guard guard(tables_->lock);
  auto& table = tables_->by_place[{heads.device(), wide_type(heads)}];
  if (table != nullptr && table->cosines.size(0) >= positions) return table;
  const int64_t length = table == nullptr ? positions : std::max(positions, 2 * table->cosines.size(0));
  const Tensor angles = at::outer(at::arange(length, at::kDouble), at::tensor(frequencies(), at::kDouble));
  const auto placed = [&](const Tensor& numbers) { return numbers.to(heads.device(), wide_type(heads)); };
  table = std::make_shared<const Table>(Table{.cosines = placed(angles.cos()), .sines = placed(angles.sin())});
  return table;
}

void Rotary::turn(const Tensor& heads, const std::vector<int64_t>& first, bool back) const {
  AXONN_ASSERT(heads.dim() == 4 && heads.size(3) == features_ && heads.stride(3) == 1, "heads of another kind");
  if (heads.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> begins = first.empty() ? std::vector<int64_t>(static_cast<size_t>(heads.size(0))) : first;
  AXONN_ASSERT(static_cast<int64_t>(begins.size()) == heads.size(0), "a first position per sample");
  const int64_t sequence = heads.size(1), half = features_ / 2;
  const auto table = table_for(*std::ranges::max_element(begins) + sequence, heads);
  if (heads.is_cpu()) return rotate_on_cpu(heads, table->cosines, table->sines, begins, back);
  const auto of_tokens = [&](const Tensor& numbers) {  // (batch or 1, sequence, 1, half)
    if (first.empty()) return numbers.narrow(0, 0, sequence).view({1, sequence, 1, half});
    const Tensor places = at::tensor(begins, at::kLong).unsqueeze(1) + at::arange(sequence, at::kLong);
    return numbers.index_select(0, places.reshape({-1}).to(heads.device())).view({heads.size(0), sequence, 1, half});
  };
  const Tensor cosines = of_tokens(table->cosines), sines = back ? -of_tokens(table->sines) : of_tokens(table->sines);
  const Tensor a = wide(heads.narrow(3, 0, half)), b = wide(heads.narrow(3, half, half));
  heads.copy_(at::cat({a * cosines - b * sines, b * cosines + a * sines}, 3));
}

}  // namespace axonn
