#include "train/report/head_line.hpp"

#include <cstdio>

#include "axonn/core/text.hpp"

namespace axonn {

std::string linear_schedules(Context& context) {
  const LinearSchedule given = context.options().linear_schedule;
  std::string all, overlapped;
  for (const Axis axis : {Axis::x, Axis::y}) {
    if (context.shape()[axis] == 1) continue;
    all.append(all.empty() ? "" : " and ").append(to_string(axis));
    if (context.scheduler().resolve(given, axis, kSmallestOverlapped) == LinearSchedule::overlap)
      overlapped.append(overlapped.empty() ? "" : " and ").append(to_string(axis));
  }
  const std::string text(to_string(given));
  if (all.empty()) return text + " (x = y = 1: no layer has a sum)";
  if (given != LinearSchedule::automatic) return text + " over " + all;
  return text + (overlapped.empty() ? " (mm-ar-c over " + all + ")"
                                    : " (over " + overlapped + ": overlap from " +
                                          binary_count_text(kSmallestOverlapped) + ", else mm-ar-c)");
}

namespace {

void print_kernels(const ContextOptions& options, const HeadLine& line) {
  std::string kernels =
      options.convolutions == ConvolutionChoice() ? "" : "; convolutions: " + options.convolutions.summary();
  if (options.attention != AttentionProducts::own)
    kernels += "; attention's products in " + std::string(to_string(options.attention));
  if (options.device.is_cuda()) kernels += "; axonn's own kernels: " + to_string(options.kernels);
  std::printf("best matrix product %sFLOP/s, gemm %s%s, linear %s, optimizer schedule %s\n",
              with_unit(line.gemm_flops).c_str(), options.gemm.to_string().c_str(), kernels.c_str(),
              line.linear.c_str(), line.update.c_str());
}

}  // namespace

void print_head(const Environment& environment, const Context& context, const HeadLine& line) {
  const ContextOptions& options = context.options();
  const GridShape& shape = context.shape();
  const int ranks = environment.ranks();
  std::printf("%s on %s (%d %s, %s), %s, %lld steps\n", std::string(line.title).c_str(), shape.to_string().c_str(),
              ranks, ranks == 1 ? "rank" : "ranks", std::string(environment.transport()).c_str(),
              std::string(line.data).c_str(), static_cast<long long>(line.steps));
  std::printf("batch %lld = %lld micro-batch%s x %lld %s a rank x z %d x data %d\n",
              static_cast<long long>(line.plan.batch), static_cast<long long>(line.plan.micro_batches),
              line.plan.micro_batches == 1 ? "" : "es", static_cast<long long>(line.plan.micro_batch),
              std::string(line.samples).c_str(), shape.z, shape.data);
  if (line.verbose) print_kernels(options, line);
  std::fflush(stdout);
}

}  // namespace axonn
