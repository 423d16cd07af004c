// pipeline_transfer: the border between two pipeline stages under each schedule. The first half of
// the ranks is one stage, the second half the other. C adds a bias and a residual.
//   scripts/cluster run --nodes 4 --rate 200mbit -n 4 -- build/release/bin/pipeline_transfer
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <CLI/CLI.hpp>

#include "axonn/comm/programs/sliced_transfer.hpp"
#include "axonn/core/error.hpp"
#include "medians.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;

constexpr int64_t kWidth = 1024, kParts[] = {2, 4, 8, 16};

struct Options {
  std::vector<int> exponents = {20, 21, 22, 23, 24};
  int repetitions = 9;
};

// One rank's half of the border. The schedules below are those of CoCoNet's evaluation.
class Border {
 public:
  Border(Environment& environment, int64_t elements)
      : stage_ranks_(environment.ranks() / 2),
        sends_(environment.rank() < stage_ranks_),
        member_(environment.rank() % stage_ranks_),
        inside_(communicator(environment, true)),
        across_(communicator(environment, false)),
        ours_(communicator(environment, true), communicator(environment, false)),
        data_(at::randn({elements / kWidth, kWidth})),
        bias_(at::randn({kWidth})),
        residual_(at::randn({elements / kWidth, kWidth})) {}

  // As Megatron-LM does: every rank computes everything and sends everything.
  void ar_c_p2p() {
    if (!sends_) return across_->receive(data_, 0).wait();
    inside_->all_reduce(data_).wait();
    compute(0, data_.size(0));
    across_->send(data_, 1).wait();
  }

  void ar_c_p2p_ag() {
    if (sends_) inside_->all_reduce(data_).wait();
    slices(1, /*reduces=*/false);
  }

  // RS-C-P2P-AG on so many parts of the rows; one is GShard's schedule.
  void rs_c_p2p_ag(int64_t parts) { slices(parts, /*reduces=*/true); }

  void overlapped() {
    const auto epilogue = [bias = bias_.const_data_ptr<float>(), residual = residual_.const_data_ptr<float>()](
                              int64_t place, int64_t count, const void* sum, void* result) {
      const auto* from = static_cast<const float*>(sum);
      auto* to = static_cast<float*>(result);
      for (int64_t i = 0; i < count; ++i) to[i] = from[i] + bias[(place + i) % kWidth] + residual[place + i];
    };
    (sends_ ? ours_.reduce_and_send(data_, epilogue) : ours_.receive(data_)).wait();
  }

 private:
  std::unique_ptr<Communicator> communicator(Environment& environment, bool inside) {
    std::vector<int> ranks(static_cast<size_t>(inside ? stage_ranks_ : 2));
    for (size_t i = 0; i < ranks.size(); ++i)
      ranks[i] =
          inside ? static_cast<int>(i) + (sends_ ? 0 : stage_ranks_) : member_ + static_cast<int>(i) * stage_ranks_;
    return environment.communicator({.axes = {}, .ranks = ranks, .index = inside ? member_ : (sends_ ? 0 : 1)},
                                    inside ? "stage" : "border");
  }

  void compute(int64_t first_row, int64_t rows) {
    data_.narrow(0, first_row, rows).add_(bias_).add_(residual_.narrow(0, first_row, rows));
  }

  void slices(int64_t parts, bool reduces) {
    const int64_t rows = data_.size(0) / parts, own = rows / stage_ranks_;
    const auto part = [&](int64_t i) { return data_.narrow(0, i * rows, rows); };
    const auto slice = [&](int64_t i) { return data_.narrow(0, i * rows + member_ * own, own); };
    std::vector<Request> first, second;
    for (int64_t i = 0; i < parts; ++i) {
      if (!sends_)
        first.push_back(across_->receive(slice(i), 0));
      else
        first.push_back(reduces ? inside_->reduce_scatter(part(i), slice(i)) : Request());
    }
    for (int64_t i = 0; i < parts; ++i) {
      first[static_cast<size_t>(i)].wait();
      if (sends_) compute(i * rows + member_ * own, own);
      second.push_back(sends_ ? across_->send(slice(i), 1) : inside_->all_gather(slice(i), part(i)));
    }
    for (const Request& request : second) request.wait();
  }

  int stage_ranks_;
  bool sends_;
  int member_;
  std::unique_ptr<Communicator> inside_, across_;
  SlicedTransfer ours_;
  at::Tensor data_, bias_, residual_;
};

void measure(Environment& environment, const Options& options, int exponent) {
  Border border(environment, int64_t{1} << exponent);
  std::vector<std::function<void()>> calls = {[&] { border.ar_c_p2p(); }, [&] { border.ar_c_p2p_ag(); },
                                              [&] { border.rs_c_p2p_ag(1); }, [&] { border.overlapped(); }};
  for (const int64_t parts : kParts) calls.emplace_back([&, parts] { border.rs_c_p2p_ag(parts); });
  const std::vector<double> times = medians(environment, options.repetitions, calls);
  if (environment.rank() != 0) return;
  const double whole = times[0], best = *std::min_element(times.begin() + 4, times.end());
  std::printf("2^%d | %8.1f | %5.2f %5.2f |", exponent, whole * 1e3, whole / times[1], whole / times[2]);
  for (size_t i = 4; i < times.size(); ++i) std::printf(" %5.2f", whole / times[i]);
  std::printf(" | %5.2f | %6.2f | %5.2f\n", whole / times[3], times[2] / times[3], best / times[3]);
  std::fflush(stdout);
}

int run(const Options& options) {
  Environment environment;
  AXONN_CHECK(environment.ranks() % 4 == 0 && environment.ranks() <= 32, "bench.pipeline_transfer",
              "needs 4, 8, 16 or 32 ranks, two stages of half of them, got ", environment.ranks());
  if (environment.rank() == 0)
    std::printf(
        "# fp32, two stages of %d ranks (%s); ms; ratio = AR-C-P2P / time; medians of %d interleaved runs\n"
        "%4s | %8s | %5s %5s | %23s | %5s | %6s | %5s\n",
        environment.ranks() / 2, std::string(environment.transport()).c_str(), options.repetitions, "size", "AR-C-P2P",
        "ARCPA", "RSCPA", "2, 4, 8, 16 parts", "ours", "/RSCPA", "parts");
  for (const int exponent : options.exponents) measure(environment, options, exponent);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("the border between two pipeline stages under each schedule");
  app.add_option("--exponents", options.exponents, "sizes: powers of two, in elements")
      ->delimiter(',')
      ->check(CLI::Range(15, 30));
  app.add_option("--repetitions", options.repetitions, "measured runs of each")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline_transfer: %s\n", error.what());
    return 1;
  }
}
