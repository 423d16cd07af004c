#include "train/head_line.hpp"

#include <cstdio>

#include "axonn/core/error.hpp"
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

// "1000 steps or 30 minutes, from step 500 (runs/mine/step-000500)"
std::string length_text(const HeadLine& line) {
  const TrainConfig& config = line.config;
  std::string text = detail::concatenate(config.steps, config.steps == 1 ? " step" : " steps");
  if (config.minutes > 0)
    text += detail::concatenate(" or ", config.minutes, config.minutes == 1 ? " minute" : " minutes");
  if (!line.identity.checkpoint.empty())
    text += detail::concatenate(", from step ", line.first_step, " (", line.identity.checkpoint, ")");
  return text;
}

// "checkpoints every 500 steps and at the end"
std::string saving_text(const TrainConfig& config, int64_t first_step) {
  const int64_t every = config.save_every, before_end = config.save_last ? config.steps - 1 : config.steps;
  if (every == 0 || before_end / every == first_step / every)
    return config.save_last ? "a checkpoint at the end" : "no checkpoint";
  return detail::concatenate("checkpoints every ", every, every == 1 ? " step" : " steps",
                             config.save_last ? " and at the end" : "");
}

}  // namespace

void print_head(const Environment& environment, const Context& context, const HeadLine& line) {
  const GridShape& shape = context.shape();
  const TrainConfig& config = line.config;
  const int ranks = environment.ranks();
  const std::string optimizer =
      config.optimizer.file.empty() ? std::string(to_string(config.optimizer.kind)) : config.optimizer.file;
  std::printf("%s on %s (%d %s, %s), %s, %s\n", line.identity.title.c_str(), shape.to_string().c_str(), ranks,
              ranks == 1 ? "rank" : "ranks", std::string(environment.transport()).c_str(), line.identity.data.c_str(),
              length_text(line).c_str());
  std::printf("%s\n", batch_text(line.plan, line.samples, shape, context.options().forward.context).c_str());
  std::printf("%s, %s\n", optimizer.c_str(), config.learning_rate().to_string().c_str());
  std::printf("metrics.jsonl, status.json and %s in %s\n", saving_text(config, line.first_step).c_str(),
              config.out.c_str());
  if (config.verbose) print_kernels(context.options(), line);
  std::fflush(stdout);
}

}  // namespace axonn
