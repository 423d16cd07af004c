#include <algorithm>
#include <cctype>
#include <cstdio>

#include <axonn/coconet/cuda/cuda_source.hpp>
#include <axonn/coconet/plan/step_kernel.hpp>

#include "schedule_commands.hpp"

using namespace axonn::coconet;

namespace {

std::string identifier(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

}  // namespace

int run_cuda(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  std::string text = "// nvcc or NVRTC:";
  for (const std::string& option : cuda_options()) text += " " + option;
  text += "\n" + cuda_prelude();
  for (const std::string& name : schedules_of(file, options)) {
    const Program scheduled = file.scheduled(name).program();
    const SchedulePlan plan = of_schedule(file, name, [&] { return SchedulePlan(scheduled); });
    for (const PlanStep& step : plan.steps()) {
      if (!step.computes() || step.kind == StepKind::scalars) continue;
      const StepKernel kernel = kernel_of(plan, step);
      text += "\n// schedule " + name + ", step " + step.name;
      if (step.kind != StepKind::kernel) text += ": for each block that its collective hands over";
      text += "\n" + cuda_kernel(kernel.kernel, identifier(file.program.name() + "_" + name + "_" + step.name));
    }
  }
  std::printf("%s", text.c_str());
  return 0;
}
