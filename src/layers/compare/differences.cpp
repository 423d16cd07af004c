#include "axonn/layers/compare/differences.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace axonn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string padded(std::string text, size_t width, bool left) {
  const size_t missing = width - std::min(width, text.size());
  return left ? text + std::string(missing, ' ') : std::string(missing, ' ') + text;
}

std::string line(const std::string& what, const std::string& difference, const std::string& tolerance) {
  return "  " + padded(what, 44, true) + padded(difference, 13, false) + padded(tolerance, 13, false);
}

std::string number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*e", digits, value);
  return text;
}

}  // namespace

bool Verification::passes() const { return std::ranges::all_of(differences, &Difference::passes); }

double Verification::worst(std::string_view kind) const {
  double result = 0;
  for (const auto& difference : differences)
    if (difference.what.starts_with(kind)) result = std::max(result, difference.relative);
  return result;
}

std::string Verification::table() const {
  std::string text = line("worst of all steps", "difference", "tolerance") + "\n";
  for (const auto& each : differences)
    text += line(each.what, number(each.relative, 2), std::isinf(each.tolerance) ? "-" : number(each.tolerance, 0)) +
            (each.passes() ? "\n" : "  FAILED\n");
  return text + (passes() ? "\nequal\n" : "\nNOT equal\n");
}

Tolerances tolerances(at::ScalarType dtype) {
  if (dtype == at::kDouble) return {.loss = 1e-12, .gradient = 1e-12};
  return {.loss = 1e-5, .gradient = 1e-3};
}

void Gap::add(const at::Tensor& mine, const at::Tensor& expected) {
  if (mine.numel() == 0) return;
  const at::Tensor a = mine.to(at::kCPU, at::kDouble), b = expected.to(at::kCPU, at::kDouble);
  const double gap = (a - b).abs().max().item<double>();
  difference = std::max(difference, std::isnan(gap) ? kInfinity : gap);
  size = std::max(size, b.abs().max().item<double>());
}

std::vector<double> relative(Communicator& everyone, const std::vector<Gap>& gaps, double least) {
  const at::Tensor greatest = at::empty({static_cast<int64_t>(gaps.size()), 2}, at::kDouble);
  double* values = greatest.mutable_data_ptr<double>();
  for (size_t i = 0; i < gaps.size(); ++i) {
    values[2 * i] = gaps[i].difference;
    values[2 * i + 1] = gaps[i].size;
  }
  everyone.all_reduce(greatest, ReduceOp::max).wait();
  double largest = 0;
  for (size_t i = 0; i < gaps.size(); ++i) largest = std::max(largest, values[2 * i + 1]);
  std::vector<double> result;
  for (size_t i = 0; i < gaps.size(); ++i)
    result.push_back(values[2 * i] == 0 ? 0 : values[2 * i] / std::max(values[2 * i + 1], least * largest));
  return result;
}

double relative(const std::vector<double>& mine, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < mine.size(); ++i) {
    const double gap = std::abs(mine[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isnan(gap) ? kInfinity : std::max(worst, gap);
    if (std::isinf(worst)) break;
  }
  return worst;
}

at::Tensor stored_part(const at::Tensor& whole, const ArenaSlot& slot, const GridShape& shape, const Coordinate& at) {
  at::Tensor part = at::zeros({slot.range.size()}, whole.options());
  for (const MappedRange& mapped : mapped_ranges(slot.spec, shape, at, slot.range))
    part.narrow(0, mapped.local_begin - slot.range.begin, mapped.size)
        .copy_(whole.narrow(0, mapped.global_begin, mapped.size));
  return part;
}

}  // namespace axonn
