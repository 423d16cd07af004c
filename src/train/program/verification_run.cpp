#include "axonn/train/program/verification_run.hpp"

#include <cmath>
#include <cstdio>

#include "axonn/core/error.hpp"
#include "train/program/local_job.hpp"

namespace axonn {
namespace {

constexpr int64_t kMostLocalRanks = 64;

void print(const Verification& result) {
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

}  // namespace

std::optional<int> VerificationRun::prepare(char** argv) const {
  constexpr const char* kWhere = "train.verify";
  const GridShape shape = options.shape();
  const TrainConfig& train = options.train;
  AXONN_CHECK(launched() || shape.ranks() <= kMostLocalRanks, kWhere, "grid ", shape.to_string(), " needs ", shape.ranks(),
              " ranks; without a launcher at most ", kMostLocalRanks, " are started on this machine: use mpirun -n ", shape.ranks());
  AXONN_CHECK(train.optimizer != OptimizerKind::sgd_momentum, kWhere, "--optimizer must be sgd or adamw here, got sgd-momentum");
  AXONN_CHECK(options.dtype == at::kDouble || options.dtype == at::kFloat, kWhere,
              "--dtype must be fp64 or fp32 here: bf16 and fp16 round more than a wrong grid might");
  AXONN_CHECK(options.reduction != "auto", kWhere, "--reduction must be ring or programs here: auto is chosen for a job and its machine");
  AXONN_CHECK(micro_batches >= 1, kWhere, "--micro-batches must be at least 1, got ", micro_batches);
  const int64_t rows = micro_batches * shape.z * shape.data;
  AXONN_CHECK(train.batch % rows == 0, kWhere, "--batch must divide by micro-batches * z * data, got batch = ", train.batch, " and ",
              micro_batches, " * ", shape.z, " * ", shape.data, " = ", rows);
  AXONN_CHECK(train.steps <= 1000, kWhere, "--steps: every step's gradients are kept, so at most 1000, got ", train.steps);
  if (launched() || shape.ranks() == 1) return std::nullopt;
  return run_local_job(static_cast<int>(shape.ranks()), argv);
}

int VerificationRun::run(Environment& environment, const std::string& title, const MakeNetwork& make) const {
  options.check_ranks(environment.ranks());
  const ContextOptions context = options.context();
  const VerificationOptions what{.dtype = options.dtype,
                                 .device = context.device,
                                 .optimizer = options.train.optimizer,
                                 .batch = options.train.batch,
                                 .micro_batches = micro_batches,
                                 .steps = static_cast<int>(options.train.steps),
                                 .learning_rate = options.train.learning_rate,
                                 .max_norm = options.train.clip,
                                 .seed = static_cast<uint64_t>(options.train.seed),
                                 .order = context.order,
                                 .overlap = context.overlap,
                                 .gradient_programs = context.gradient_programs};
  const Verification result = Verifier(environment, what, make).on(options.shape());
  if (environment.rank() == 0) {
    std::printf("%s: %s (%d ranks, %s) against one rank, %s, %d steps, %lld micro-batches\n\n", title.c_str(),
                options.shape().to_string().c_str(), environment.ranks(), std::string(environment.transport()).c_str(),
                options.dtype == at::kDouble ? "fp64" : "fp32", what.steps, static_cast<long long>(micro_batches));
    print(result);
  }
  return result.passes() ? 0 : 1;
}

}  // namespace axonn
