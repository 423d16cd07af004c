#include <cmath>
#include <cstdio>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/train/verification.hpp>

#include "commands.hpp"
#include "local_job.hpp"

namespace {

constexpr int64_t kMostLocalRanks = 64;

}  // namespace

void check_verify(const GptOptions& options) {
  options.check();
  const axonn::GridShape shape = options.shape();
  AXONN_CHECK(launched() || shape.ranks() <= kMostLocalRanks, "gpt.verify", "grid ", shape.to_string(), " needs ", shape.ranks(),
              " ranks; without a launcher at most ", kMostLocalRanks, " are started on this machine: use mpirun -n ", shape.ranks());
  AXONN_CHECK(options.train.optimizer != axonn::OptimizerKind::sgd_momentum, "gpt.verify",
              "--optimizer must be sgd or adamw here, got sgd-momentum");
  AXONN_CHECK(options.dtype == at::kDouble || options.dtype == at::kFloat, "gpt.verify",
              "--dtype must be fp64 or fp32 here: bf16 and fp16 round more than a wrong grid might");
  AXONN_CHECK(options.micro_batches >= 1, "gpt.verify", "--micro-batches must be at least 1, got ", options.micro_batches);
  const int64_t rows = options.micro_batches * shape.z * shape.data;
  AXONN_CHECK(options.train.batch % rows == 0, "gpt.verify",
              "--batch must divide by micro-batches * z * data, got batch = ", options.train.batch, " and ", options.micro_batches, " * ",
              shape.z, " * ", shape.data, " = ", rows);
  AXONN_CHECK(options.train.steps <= 1000, "gpt.verify", "--steps: every step's gradients are kept, so at most 1000, got ",
              options.train.steps);
}

int run_verify(axonn::Environment& environment, const GptOptions& options) {
  axonn::VerificationOptions what{.model = options.model,
                                  .dtype = options.dtype,
                                  .device = options.context().device,
                                  .optimizer = options.train.optimizer,
                                  .batch = options.train.batch,
                                  .micro_batches = options.micro_batches,
                                  .steps = static_cast<int>(options.train.steps),
                                  .learning_rate = options.train.learning_rate,
                                  .max_norm = options.train.clip,
                                  .seed = static_cast<uint64_t>(options.train.seed)};
  if (what.model.vocabulary == 0) what.model.vocabulary = 256;
  check_ranks(options.shape(), environment.ranks());
  options.check_memory(environment.local_ranks());
  const axonn::Verification result = axonn::GptVerifier(environment, what).on(options.shape());
  if (environment.rank() == 0) {
    std::printf("gpt verify: %s (%d ranks, %s) against one rank, %s, %d steps, %lld micro-batches\n\n", options.shape().to_string().c_str(),
                environment.ranks(), std::string(environment.transport()).c_str(), options.dtype == at::kDouble ? "fp64" : "fp32",
                what.steps, static_cast<long long>(options.micro_batches));
    std::printf("  %-44s %12s %12s\n", "worst of all steps", "difference", "tolerance");
    for (const auto& difference : result.differences) {
      if (std::isinf(difference.tolerance))
        std::printf("  %-44s %12.2e %12s\n", difference.what.c_str(), difference.relative, "-");
      else
        std::printf("  %-44s %12.2e %12.0e%s\n", difference.what.c_str(), difference.relative, difference.tolerance,
                    difference.passes() ? "" : "  FAILED");
    }
    std::printf("\n%s\n", result.passes() ? "equal" : "NOT equal");
  }
  return result.passes() ? 0 : 1;
}
