// Prints the loop of configs/programs/adamw.program as CUDA text, for bf16 and fp16: the loop that
// CPUs run as a stage chain. The build compiles it into adamw_pass.cu.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "axonn/coconet/cuda/cuda_source.hpp"
#include "axonn/coconet/plan/step_kernel.hpp"
#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/coconet/update/update_program.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// `weights`: the type that the new weights are rounded to, in the same loop.
std::string update_text(const coconet::UpdateProgram& program, coconet::ElementType weights, const char* name) {
  const coconet::SchedulePlan plan(
      program.with_types(weights, coconet::ElementType::fp32, coconet::ElementType::fp32).scheduled().program());
  const auto update =
      std::ranges::find_if(plan.steps(), [](const coconet::PlanStep& step) { return !step.writes.empty(); });
  AXONN_ASSERT(update != plan.steps().end(), "no step of ", program.name(), " writes");
  return cuda_function(kernel_of(plan, *update).kernel, name);
}

int run(const char* file) {
  const coconet::UpdateProgram program(coconet::load_program_file(file).program);
  const std::string text = coconet::cuda_prelude() + update_text(program, coconet::ElementType::bf16, "adamw_bf16") +
                           update_text(program, coconet::ElementType::fp16, "adamw_fp16");
  std::printf("%s", text.c_str());
  return 0;
}

}  // namespace
}  // namespace axonn

int main(int, char** arguments) {
  try {
    return axonn::run(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adamw_text: %s\n", error.what());
    return 1;
  }
}
