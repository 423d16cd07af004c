#include <cmath>
#include <cstdio>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/train/verification.hpp>

#include "commands.hpp"

int run_verify(axonn::Environment& environment, const GptOptions& options, int64_t micro_batches) {
  axonn::VerificationOptions what{.model = options.model,
                                  .dtype = options.dtype,
                                  .device = options.context().device,
                                  .optimizer = options.train.optimizer,
                                  .batch = options.train.batch,
                                  .micro_batches = micro_batches,
                                  .steps = static_cast<int>(options.train.steps),
                                  .learning_rate = options.train.learning_rate,
                                  .max_norm = options.train.clip,
                                  .seed = static_cast<uint64_t>(options.train.seed)};
  if (what.model.vocabulary == 0) what.model.vocabulary = 256;
  axonn::check_shape(options.shape(), environment.ranks());
  const axonn::Verification result = axonn::GptVerifier(environment, what).on(options.shape());
  if (environment.rank() == 0) {
    std::printf("gpt verify: %s (%d ranks, %s) against one rank, %s, %d steps, %lld micro-batches\n\n", options.shape().to_string().c_str(), environment.ranks(),
                std::string(environment.transport()).c_str(), options.dtype == at::kDouble ? "fp64" : "fp32", what.steps, static_cast<long long>(micro_batches));
    std::printf("  %-44s %12s %12s\n", "worst of all steps", "difference", "tolerance");
    for (const auto& difference : result.differences) {
      if (std::isinf(difference.tolerance))
        std::printf("  %-44s %12.2e %12s\n", difference.what.c_str(), difference.relative, "-");
      else
        std::printf("  %-44s %12.2e %12.0e%s\n", difference.what.c_str(), difference.relative, difference.tolerance, difference.passes() ? "" : "  FAILED");
    }
    std::printf("\n%s\n", result.passes() ? "equal" : "NOT equal");
  }
  return result.passes() ? 0 : 1;
}
