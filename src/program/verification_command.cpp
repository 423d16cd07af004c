#include "axonn/program/verification_command.hpp"

#include <cstdio>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "program/local_job.hpp"
#include "program/ranks/same_options.hpp"

namespace axonn {
namespace {

// "overlap: 14 sums per step by overlap"
std::string what_ran(const ForwardSchedule& given, const LinearCounts& sums) {
  std::string ran;
  for (const auto& [schedule, count] : with_names(sums))
    ran.append(ran.empty() ? ": " : ", ").append(std::to_string(count) + " sums per step by ").append(schedule);
  return std::string(to_string(given.linear)) + (ran.empty() ? ": no layer has a sum over ranks" : ran);
}

}  // namespace

VerificationCommand::VerificationCommand(ProgramOptions& options, std::vector<std::string_view> sections,
                                         std::string program)
    : options_(options), sections_(std::move(sections)), program_(std::move(program)) {
  options_.run.numerics.dtype = Precision::fp64;
  options_.run.train.steps = 5;
  options_.run.train.optimizer = VerificationOptions().optimizer;
  options_.run.train.learning_rate_schedule = LearningRateSchedule::constant;
  for (const std::string_view key :
       {"run.grid", "run.order", "run.dtype", "run.device", "run.tf32", "run.deterministic", "run.kernels", "run.seed",
        "overlap", "train.steps", "train.batch", "train.optimizer", "train.optimizer_schedule", "train.optimizer_set",
        "train.learning_rate", "train.learning_rate_end", "train.learning_rate_schedule", "train.learning_rate_decay",
        "train.clip"})
    sections_.push_back(key);
}

void VerificationCommand::add_flags(CLI::App& app) {
  options_.table.add_flags(app, sections_);
  app.add_option("--config", config_, "TOML file with the same keys");
  app.add_option("--micro-batches", micro_batches_, "forward passes per step");
}

std::optional<int> VerificationCommand::prepare(char** argv) {
  constexpr const char* kWhere = "program.verify";
  if (!config_.empty()) options_.table.read_toml_file(config_);
  options_.apply_preset();
  const RunOptions& run = options_.run;
  AXONN_CHECK(run.placement.grid, kWhere, "--grid must be a grid here: auto is chosen for a job and its machine");
  AXONN_CHECK(run.communication.reduction, kWhere,
              "--reduction must be ring or programs here: auto is chosen for a job and its machine");
  const GridShape& shape = plan_.emplace(plan_run(run)).grid;
  options_.check(shape);
  AXONN_CHECK(launched() || shape.ranks() <= kMostLocalRanks, kWhere, "grid ", shape.to_string(), " needs ",
              shape.ranks(), " ranks; without a launcher at most ", kMostLocalRanks,
              " are started on this machine: use mpirun -n ", shape.ranks());
  AXONN_CHECK(run.numerics.dtype == Precision::fp64 || run.numerics.dtype == Precision::fp32, kWhere,
              "--dtype must be fp64 or fp32 here: bf16 and fp16 round more than a wrong grid might");
  AXONN_CHECK(micro_batches_ >= 1, kWhere, "--micro-batches must be at least 1, got ", micro_batches_);
  const int64_t rows = micro_batches_ * plan_->row_groups(), context = plan_->context.forward.context;
  AXONN_CHECK(run.train.batch % rows == 0, kWhere, "--batch must divide by micro-batches * z",
              context == 1 ? "" : " / context", " * data, got batch = ", run.train.batch, " and ", micro_batches_,
              " * ", shape.z, context == 1 ? "" : detail::concatenate(" / ", context), " * ", shape.data, " = ", rows);
  AXONN_CHECK(run.train.steps <= 1000, kWhere, "--steps: every step's gradients are kept, so at most 1000, got ",
              run.train.steps);
  if (launched() || shape.ranks() == 1) return std::nullopt;
  return run_local_job(static_cast<int>(shape.ranks()), argv);
}

int VerificationCommand::run(Environment& environment) {
  check_same_options(environment.world(), options_.table);
  const RunPlan& plan = *plan_;
  LearningRate rate = plan.train.learning_rate();
  rate.warmup = 0;  // the first steps are all there are
  const int64_t of_a_step = plan.train.batch / plan.row_groups();
  RunPlan parts = plan;
  parts.train.micro_batch = of_a_step / micro_batches_;
  const RankMemory memory{
      .bytes = [&](const RunPlan& one) { return options_.predict(one).total_bytes(); },
      .flag_for_rows = [&](int64_t rows) { return "--micro-batches " + std::to_string(of_a_step / rows); }};
  check_memory(parts, memory, environment.local_rank(), environment.local_ranks());
  check_ranks(plan.grid, environment.ranks());
  const VerificationOptions what{.dtype = plan.context.dtype,
                                 .device = plan.context.device,
                                 .gpu_kernels = plan.context.gpu_kernels,
                                 .optimizer = plan.train.optimizer,
                                 .learning_rate = rate,
                                 .batch = plan.train.batch,
                                 .micro_batches = micro_batches_,
                                 .steps = static_cast<int>(plan.train.steps),
                                 .max_norm = plan.train.clip,
                                 .seed = static_cast<uint64_t>(plan.train.seed),
                                 .kernels = plan.context.kernels,
                                 .order = plan.context.order,
                                 .overlap = plan.context.overlap,
                                 .forward = plan.context.forward,
                                 .gradient_programs = plan.context.gradient_programs};
  const Verification result = Verifier(environment, what, network(plan)).on(plan.grid);
  if (environment.rank() == 0) {
    std::printf("%s verify: %s (%d ranks, %s) against one rank, %s, %d steps, %lld micro-batches, linear %s\n\n",
                program_.c_str(), plan.grid.to_string().c_str(), environment.ranks(),
                std::string(environment.transport()).c_str(), plan.context.dtype == at::kDouble ? "fp64" : "fp32",
                what.steps, static_cast<long long>(micro_batches_),
                what_ran(what.forward, result.linear_products).c_str());
    std::fputs(result.table().c_str(), stdout);
  }
  return result.passes() ? 0 : 1;
}

}  // namespace axonn
