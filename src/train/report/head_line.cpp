#include "train/report/head_line.hpp"

#include <cstdio>

#include "axonn/core/text.hpp"

namespace axonn {

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
