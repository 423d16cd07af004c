#include "coconet/cuda/some_kernels.hpp"

#include <algorithm>

#include "axonn/coconet/plan/step_kernel.hpp"
#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/coconet/update/update_program.hpp"
#include "axonn/core/error.hpp"
#include "coconet/proofs/random_schedule.hpp"
#include "coconet/stages/chain_runs.hpp"
#include "coconet/stages/random_kernel.hpp"

namespace axonn::coconet::test {
namespace {

// The loops of one random program; none if no executor runs it.
std::vector<PointwiseKernel> kernels_of(proofs::Dice& dice) {
  const proofs::RandomProgram random = proofs::random_program(dice, {}, proofs::Aim::execution);
  const Program scheduled = proofs::random_schedule(random, dice, {}, proofs::Aim::execution).program;
  std::vector<PointwiseKernel> kernels;
  try {
    const SchedulePlan plan(scheduled);
    for (const PlanStep& step : plan.steps()) {
      if (!step.computes()) continue;
      PointwiseKernel kernel = kernel_of(plan, step).kernel;
      (void)StageChain(kernel, InstructionSet::plain);
      kernels.push_back(std::move(kernel));
    }
  } catch (const UserError&) {
  }
  return kernels;
}

}  // namespace

std::vector<PointwiseKernel> random_kernels(size_t count) {
  std::vector<PointwiseKernel> kernels;
  for (uint64_t seed = 0; kernels.size() < count / 2; ++seed)
    kernels.push_back(RandomKernel(seed, static_cast<int>(1 + seed % 40), seed % 4 == 0, seed % 3 == 0).kernel());
  proofs::Dice dice(1);
  while (kernels.size() < count)
    for (PointwiseKernel& kernel : kernels_of(dice))
      if (kernels.size() < count) kernels.push_back(std::move(kernel));
  return kernels;
}

std::vector<NamedKernel> kernels_of_programs(const std::filesystem::path& folder) {
  std::vector<NamedKernel> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".program") continue;
    const UpdateProgram program(load_program_file(entry.path()).program);
    for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
      const SchedulePlan plan(program.scheduled(schedule).program());
      for (const PlanStep& step : plan.steps())
        if (step.computes())
          kernels.push_back(
              {entry.path().stem().string() + " " + std::string(name) + " " + step.name, kernel_of(plan, step).kernel});
    }
  }
  return kernels;
}

OracleInputs random_inputs(const PointwiseKernel& kernel, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  OracleInputs made{.count = count};
  for (size_t i = 0; i < kernel.scalars().size(); ++i) made.scalars.push_back(normal(random));
  for (size_t i = 0; i < kernel.range_values().size(); ++i) made.range_values.push_back(normal(random));
  for (size_t i = 0; i < kernel.masks().size(); ++i)
    made.masks.push_back(
        {.probability = 0.3, .seed = random(), .stream = 7, .first = static_cast<int64_t>(random() % 9)});
  for (const auto& each : kernel.streams()) made.streams.push_back(random_elements(each.type, count, random()));
  return made;
}

}  // namespace axonn::coconet::test
