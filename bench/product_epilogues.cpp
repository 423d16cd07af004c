// product_epilogues: each product with an epilogue that `--kernels epilogues` uses, for the widths
// of a GPT on one GPU: whether cuBLASLt has it, its error beside fp32, and its time beside a plain
// product and a launch for each of the rest. One line of JSON per product.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <CLI/CLI.hpp>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "axonn/kernels/choice/device_choice.hpp"
#include "kernels/gpu/linear_terms.hpp"

namespace {

using namespace axonn;
using Json = nlohmann::ordered_json;

// On the device, of one of ten in a row.
double milliseconds_of(const std::function<void()>& work) {
  constexpr int kTimes = 10;
  const auto stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(c10::Device(c10::kCUDA, 0));
  c10::Event begin(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT), end(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
  work();
  begin.record(stream);
  for (int i = 0; i < kTimes; ++i) work();
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end) / kTimes;
}

at::Tensor drawn(at::IntArrayRef sizes) {
  return at::randn(sizes, at::TensorOptions().dtype(at::kBFloat16).device(c10::kCUDA));
}

double difference(const at::Tensor& got, const at::Tensor& need) {
  const at::Tensor wide = need.to(at::kFloat);
  return ((got.to(at::kFloat) - wide).abs().max() / wide.abs().max()).item<double>();
}

struct Case {
  std::string kind;
  int64_t width;
  LinearTerms terms;
};

// Of a block with `width` features: the products of Linear's forward and backward.
std::vector<Case> cases_of(int64_t width, int64_t rows) {
  const at::Tensor narrow = drawn({rows, width}), broad = drawn({rows, 4 * width});
  const at::Tensor up = drawn({4 * width, width}) * 0.02, down = drawn({width, 4 * width}) * 0.02;
  const at::Tensor bias = drawn({width}), broad_bias = drawn({4 * width});
  const auto like = [](const at::Tensor& tensor) { return at::empty(tensor.sizes(), tensor.options()); };
  const auto wide = at::TensorOptions().dtype(at::kFloat).device(c10::kCUDA);
  return {{"bias", width, {.out = like(broad), .a = narrow, .b = up, .bias = broad_bias}},
          {"bias and residual",
           width,
           {.out = like(narrow), .a = broad, .b = down, .added = drawn({rows, width}), .bias = bias}},
          {"bias and GELU",
           width,
           {.out = like(broad), .a = narrow, .b = up, .bias = broad_bias, .gelu_input = like(broad)}},
          {"GELU's gradient", width, {.out = like(broad), .a = narrow, .b = down.t(), .gelu_gradient_at = broad}},
          {"bias's gradient",
           width,
           {.out = at::empty({4 * width, width}, wide),
            .a = broad.t(),
            .b = narrow.t(),
            .sums_of_a = at::empty({4 * width}, wide)}}};
}

// The largest error of the outputs, beside the same in fp32.
double error_of(const LinearTerms& terms) {
  const auto wide = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kFloat) : tensor; };
  at::Tensor need = at::mm(wide(terms.a), wide(terms.b).t());
  if (terms.added.defined()) need += wide(terms.added);
  if (terms.bias.defined()) need += wide(terms.bias);
  double error = 0;
  if (terms.gelu_input.defined()) {
    error = difference(terms.gelu_input, need);
    need = at::gelu(need, "tanh");
  }
  if (terms.gelu_gradient_at.defined()) need = at::gelu_backward(need, wide(terms.gelu_gradient_at), "tanh");
  if (terms.sums_of_a.defined()) error = difference(terms.sums_of_a, wide(terms.a).sum(1));
  return std::max(error, difference(terms.out, need));
}

double rounded(double value) { return std::round(value * 1e5) / 1e5; }

void print(const Case& one) {
  const bool there = multiply_at_once(one.terms);
  const auto apart = [&] { multiply_apart(one.terms); };
  if (!there) apart();
  Json line = {{"kind", one.kind}, {"width", one.width}, {"there", there}, {"error", rounded(error_of(one.terms))}};
  if (there) line["ms"] = rounded(milliseconds_of([&] { multiply_at_once(one.terms); }));
  line["plain_ms"] = rounded(milliseconds_of(apart));
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> widths = {768, 1280, 1600};
  int64_t rows = 32768;
  CLI::App app("Products with cuBLASLt's epilogues: which there are, their errors and times");
  app.add_option("--hidden", widths, "widths of the network")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "tokens of a step")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    choose_device(c10::kCUDA, 0);
    at::globalContext().lazyInitDevice(at::kCUDA);
    set_gpu_kernels({});
    const at::NoGradGuard no_grad;
    for (const int64_t width : widths)
      for (const Case& one : cases_of(width, rows)) print(one);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "product_epilogues: %s\n", error.what());
    return 1;
  }
}
