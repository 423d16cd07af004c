#include "axonn/program/verification_command.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "program/local_job.hpp"

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

VerificationCommand::VerificationCommand(RunOptions& options, OptionTable& table, std::vector<std::string_view> sections,
                                         std::string program)
    : options_(options), table_(table), sections_(std::move(sections)), program_(std::move(program)) {
  options_.dtype = at::kDouble;
  options_.train.steps = 5;
  options_.train.learning_rate = VerificationOptions().learning_rate;
  for (const std::string_view key : {"run.grid", "run.order", "run.dtype", "run.device", "run.seed", "overlap", "train.steps",
                                     "train.batch", "train.optimizer", "train.learning_rate", "train.clip"})
    sections_.push_back(key);
}

void VerificationCommand::add_flags(CLI::App& app) {
  table_.add_flags(app, sections_);
  app.add_option("--config", config_, "TOML file with the same keys");
  app.add_option("--micro-batches", micro_batches_, "forwards a step");
}

std::optional<int> VerificationCommand::prepare(char** argv) {
  constexpr const char* kWhere = "train.verify";
  if (!config_.empty()) table_.read_toml_file(config_);
  apply_preset();
  check();
  const GridShape shape = options_.shape();
  const TrainConfig& train = options_.train;
  AXONN_CHECK(launched() || shape.ranks() <= kMostLocalRanks, kWhere, "grid ", shape.to_string(), " needs ", shape.ranks(),
              " ranks; without a launcher at most ", kMostLocalRanks, " are started on this machine: use mpirun -n ", shape.ranks());
  AXONN_CHECK(train.optimizer != OptimizerKind::sgd_momentum, kWhere, "--optimizer must be sgd or adamw here, got sgd-momentum");
  AXONN_CHECK(options_.dtype == at::kDouble || options_.dtype == at::kFloat, kWhere,
              "--dtype must be fp64 or fp32 here: bf16 and fp16 round more than a wrong grid might");
  AXONN_CHECK(options_.reduction != "auto", kWhere, "--reduction must be ring or programs here: auto is chosen for a job and its machine");
  AXONN_CHECK(micro_batches_ >= 1, kWhere, "--micro-batches must be at least 1, got ", micro_batches_);
  const int64_t rows = micro_batches_ * shape.z * shape.data;
  AXONN_CHECK(train.batch % rows == 0, kWhere, "--batch must divide by micro-batches * z * data, got batch = ", train.batch, " and ",
              micro_batches_, " * ", shape.z, " * ", shape.data, " = ", rows);
  AXONN_CHECK(train.steps <= 1000, kWhere, "--steps: every step's gradients are kept, so at most 1000, got ", train.steps);
  if (launched() || shape.ranks() == 1) return std::nullopt;
  return run_local_job(static_cast<int>(shape.ranks()), argv);
}

int VerificationCommand::run(Environment& environment) {
  check_memory(environment.local_ranks());
  options_.check_ranks(environment.ranks());
  const ContextOptions context = options_.context();
  const VerificationOptions what{.dtype = options_.dtype,
                                 .device = context.device,
                                 .optimizer = options_.train.optimizer,
                                 .batch = options_.train.batch,
                                 .micro_batches = micro_batches_,
                                 .steps = static_cast<int>(options_.train.steps),
                                 .learning_rate = options_.train.learning_rate,
                                 .max_norm = options_.train.clip,
                                 .seed = static_cast<uint64_t>(options_.train.seed),
                                 .order = context.order,
                                 .overlap = context.overlap,
                                 .gradient_programs = context.gradient_programs};
  const Verification result = Verifier(environment, what, network()).on(options_.shape());
  if (environment.rank() == 0) {
    std::printf("%s verify: %s (%d ranks, %s) against one rank, %s, %d steps, %lld micro-batches\n\n", program_.c_str(),
                options_.shape().to_string().c_str(), environment.ranks(), std::string(environment.transport()).c_str(),
                options_.dtype == at::kDouble ? "fp64" : "fp32", what.steps, static_cast<long long>(micro_batches_));
    print(result);
  }
  return result.passes() ? 0 : 1;
}

}  // namespace axonn
