#include "operation_times.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/record_function.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Running {
  std::string name;
  Clock::time_point start;
  double nested = 0;  // seconds
};

thread_local std::vector<Running> running;
thread_local std::map<std::string, double> seconds;

// "axonn::linear h.0.mlp.fc.weight" -> "linear": of which layer does not matter.
std::string kind_of(std::string_view name) {
  constexpr std::string_view kOurs = "axonn::";
  if (!name.starts_with(kOurs)) return std::string(name);
  name.remove_prefix(kOurs.size());
  return std::string(name.substr(0, name.find(' ')));
}

// Operators of LibTorch are listed with the axonn operation that called them.
std::string place_of(std::string_view name) {
  std::string text = kind_of(name);
  if (!name.starts_with("axonn::"))
    for (auto outer = running.rbegin(); outer != running.rend(); ++outer)
      if (outer->name.find("::") == std::string::npos) return outer->name + " " + text;
  return text;
}

bool is_product(std::string_view name) {
  constexpr std::array kProducts = {"aten::mm",          "aten::addmm",
                                    "aten::bmm",         "aten::baddbmm",
                                    "aten::convolution", "aten::mkldnn_convolution",
                                    "linear_pointwise",  "aten::convolution_backward",
                                    "winograd",          "flash_attention"};
  return std::ranges::any_of(kProducts,
                             [&](const char* product) { return name.find(product) != std::string_view::npos; });
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  running.push_back({place_of(function.name()), Clock::now()});
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  if (running.empty()) return;  // began before start()
  const double whole = std::chrono::duration<double>(Clock::now() - running.back().start).count();
  seconds[running.back().name] += whole - running.back().nested;
  running.pop_back();
  if (!running.empty()) running.back().nested += whole;
}

}  // namespace

void OperationTimes::start() {
  seconds.clear();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start, on_end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
}

void OperationTimes::stop() { at::removeCallback(handle_); }

void OperationTimes::print(double whole, int steps) const {
  double products = 0, counted = 0;
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [name, spent] : seconds) {
    counted += spent;
    if (is_product(name)) products += spent;
    lines.emplace_back(spent, name);
  }
  lines.emplace_back(whole - counted, "no operation");
  std::ranges::sort(lines, std::greater());
  for (const auto& [spent, name] : lines)
    if (spent >= 0.002 * whole)
      std::printf("  %-60s %9.3f ms %6.1f%%%s\n", name.c_str(), spent / steps * 1e3, 100 * spent / whole,
                  is_product(name) ? "  product" : "");
  std::printf("  products %.2f ms, outside products %.2f ms (%.1f%%)\n", products / steps * 1e3,
              (whole - products) / steps * 1e3, 100 * (whole - products) / whole);
}
