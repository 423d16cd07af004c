// row_linear: a row-parallel layer under each schedule, its product and its all-reduce by
// themselves, and the same layer on separate parts of its rows.
//   scripts/cluster run --nodes 2 --rate 200mbit -n 2 -- build/release/bin/row_linear
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/linear.hpp"
#include "medians.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;

struct Options {
  std::vector<std::string> shapes = {"1024x16384x1024"};
  int repetitions = 9;
  double dropout = 0;
  std::string gemm = "auto";
};

struct Shape {
  int64_t rows = 0, in = 0, out = 0;  // per rank: in is this rank's part
};

Shape parse(const std::string& text) {
  long long rows = 0, in = 0, out = 0;
  AXONN_CHECK(std::sscanf(text.c_str(), "%lldx%lldx%lld", &rows, &in, &out) == 3 && rows > 0 && in > 0 && out > 0,
              "bench.row_linear", "a shape is ROWSxINxOUT, such as 1024x16384x1024, got '", text, "'");
  return {rows, in, out};
}

// The layer on a grid of 1 x ranks: its input features are over Y.
class Layer {
 public:
  Layer(Environment& environment, const Shape& shape, LinearSchedule schedule, const GemmChoice& gemm, double dropout)
      : context_(environment, {.y = environment.ranks()}, {.forward = {.linear = schedule}, .gemm = gemm}),
        layer_(context_, {.in = shape.in * environment.ranks(), .out = shape.out}),
        parameters_(context_.materialize(*layer_, 1)),
        dropout_(dropout),
        in_(layer_->input_layout()),
        input_(at::randn({shape.rows, shape.in})),
        stream_(at::randn({shape.rows, shape.out})) {
    context_.set_samples(Context::Samples{.seed = 1, .first = 0});
  }

  // Parts of the rows, each as a call of its own: all are launched, then all are waited for.
  void run(int64_t parts = 1) {
    const at::NoGradGuard no_grad;
    const int64_t rows = input_.size(0), each = (rows + parts - 1) / parts;
    std::vector<PendingValue> coming;
    for (int64_t begin = 0; begin < rows; begin += each) {
      const int64_t count = std::min(each, rows - begin);
      coming.push_back(
          layer_->launch({input_.narrow(0, begin, count), layer_->weight().spec().dims[1].size(), in_},
                         {.stream = {stream_.narrow(0, begin, count), stream_.size(1), layer_->output_layout()},
                          .dropout = dropout_,
                          .name = "bench"}));
    }
    for (PendingValue& value : coming) value.wait();
  }

  at::Tensor product() {
    const auto weight = layer_->weight().gathered();
    return gemm(context_.options().gemm(GemmUse::output, input_.size(0), weight->size(0), weight->size(1)), input_,
                *weight);
  }

  // MM, RS, C on this rank's part, and AG as four calls.
  void run_in_calls(Communicator& ranks) {
    const at::Tensor output = product().flatten();
    const int64_t part = output.numel() / ranks.size();
    at::Tensor sums = output.narrow(0, part * ranks.rank(), part);
    ranks.reduce_scatter(output, sums).wait();
    const int64_t first = part * ranks.rank() / stream_.size(1);
    sums.view({-1, stream_.size(1)}).add_(bias_row()).add_(stream_.narrow(0, first, part / stream_.size(1)));
    ranks.all_gather(sums, output).wait();
  }

 private:
  at::Tensor bias_row() const { return stream_[0]; }

  Context context_;
  Linear layer_;
  Parameters parameters_;
  double dropout_;
  Layout in_;
  at::Tensor input_, stream_;
};

constexpr int64_t kParts[] = {2, 4, 8, 16};

void measure(Environment& environment, const Options& options, const Shape& shape, const GemmChoice& gemm) {
  Communicator& ranks = environment.world();
  AXONN_CHECK(shape.rows % ranks.size() == 0, "bench.row_linear", "rows must divide by ", ranks.size(), " ranks, got ",
              shape.rows);
  Layer plain(environment, shape, LinearSchedule::mm_ar_c, gemm, options.dropout);
  Layer at_owner(environment, shape, LinearSchedule::mm_rs_c_ag, gemm, options.dropout);
  Layer overlapped(environment, shape, LinearSchedule::overlap, gemm, options.dropout);
  Layer automatic(environment, shape, LinearSchedule::automatic, gemm, options.dropout);
  const at::Tensor sums = at::randn({shape.rows, shape.out});
  std::vector<std::function<void()>> calls = {[&] { plain.product(); }, [&] { ranks.all_reduce(sums).wait(); },
                                              [&] { plain.run(); },     [&] { plain.run_in_calls(ranks); },
                                              [&] { at_owner.run(); },  [&] { overlapped.run(); },
                                              [&] { automatic.run(); }};
  for (const int64_t parts : kParts) calls.emplace_back([&, parts] { plain.run(parts); });
  const std::vector<double> times = medians(environment, options.repetitions, calls);
  if (environment.rank() != 0) return;
  const double product = times[0], transfer = times[1], sequence = times[2], ours = times[5],
               best_schedule = std::min({sequence, times[4], ours}),
               best_parts = *std::min_element(times.begin() + 7, times.end());
  const auto hidden = [&](double time) { return 100 * (sequence - time) / std::min(product, transfer); };
  std::printf("%5lld x %5lld x %5lld | %7.1f %7.1f %5.2f | %7.1f | %6.2f %6.2f |", static_cast<long long>(shape.rows),
              static_cast<long long>(shape.in), static_cast<long long>(shape.out), product * 1e3, transfer * 1e3,
              transfer / product, sequence * 1e3, sequence / times[3], sequence / times[4]);
  for (size_t i = 7; i < times.size(); ++i) std::printf(" %5.2f", sequence / times[i]);
  std::printf(" | %6.2f %5.0f%% | %5.2f | %6.2f %5.1f%%\n", sequence / ours, hidden(ours), best_parts / ours,
              sequence / times[6], 100 * (times[6] / best_schedule - 1));
  std::fflush(stdout);
}

int run(const Options& options) {
  keep_freed_memory();
  Environment environment;
  const GemmChoice gemm =
      options.gemm == "auto" ? choose_gemm(environment.world(), at::kFloat, c10::kCPU) : GemmChoice(options.gemm);
  if (environment.rank() == 0)
    std::printf(
        "# fp32, %d ranks (%s), dropout %g, gemm %s; times in ms; ratio = MM-AR-C / time; hidden: share of the smaller "
        "of MM and AR; medians of %d interleaved runs\n"
        "%21s | %7s %7s %5s | %7s | %6s %6s | %23s | %6s %6s | %5s | %6s %6s\n",
        environment.ranks(), std::string(environment.transport()).c_str(), options.dropout, gemm.to_string().c_str(),
        options.repetitions, "rows x in x out a rank", "MM", "AR", "AR/MM", "MM-AR-C", "RSCAG", "fused",
        "2, 4, 8, 16 parts", "overl.", "hidden", "parts", "auto", "behind");
  for (const std::string& shape : options.shapes) measure(environment, options, parse(shape), gemm);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("a row-parallel layer under each schedule, beside its product and all-reduce");
  app.add_option("--shapes", options.shapes, "ROWSxINxOUT, in: the features of one rank")->delimiter(',');
  app.add_option("--repetitions", options.repetitions, "measured runs of each");
  app.add_option("--dropout", options.dropout, "probability, with the residual's sum");
  app.add_option("--gemm", options.gemm, "auto, mm or onednn");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "row_linear: %s\n", error.what());
    return 1;
  }
}
