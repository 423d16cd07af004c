#include "axonn/kernels/choice/device_choice.hpp"

#include <gtest/gtest.h>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

// Why this process cannot compute on a GPU; empty when it can.
std::string lacks() {
  if (!AXONN_TEST_CUDA) return "this build has no CUDA";
  return c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount() > 0 ? "" : "this machine has no CUDA device";
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "";
}

TEST(DeviceChoice, TheCpuNeedsNothing) { EXPECT_EQ(choose_device(c10::kCPU, 3), c10::Device(c10::kCPU)); }

TEST(DeviceChoice, WithoutAGpuTheErrorSaysWhatIsMissing) {
  if (lacks().empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_NE(refusal([] { choose_device(c10::kCUDA, 0); }).find(lacks()), std::string::npos);
}

TEST(DeviceChoice, AContextOnCudaIsRefusedBeforeAnythingIsMade) {
  if (lacks().empty()) GTEST_SKIP() << "this machine has a GPU";
  Environment environment;
  const auto make = [&] { Context(environment, {}, {.device = c10::kCUDA}); };
  EXPECT_NE(refusal(make).find(lacks()), std::string::npos);
}

TEST(DeviceChoice, APlanOnCudaNeedsNoGpu) {
  const Context plan = Context::plan({.x = 2}, {.device = c10::kCUDA});
  EXPECT_TRUE(plan.options().device.is_cuda());
}

TEST(DeviceChoice, OtherDevicesAreRefused) {
  EXPECT_NE(refusal([] { choose_device(c10::kMPS, 0); }).find("must be cpu or cuda, got mps"), std::string::npos);
}

TEST(DeviceChoice, KernelsOfAGpuAreRefusedWhereTheyMeanNothing) {
  const auto plan = [](const ContextOptions& options) { (void)Context::plan({}, options); };
  EXPECT_NE(refusal([&] { plan({.gpu_kernels = {.tf32 = true}}); }).find("TF32 is for fp32 on a GPU"),
            std::string::npos);
  const ContextOptions bf16{.dtype = at::kBFloat16, .device = c10::kCUDA, .gpu_kernels = {.tf32 = true}};
  EXPECT_NE(refusal([&] { plan(bf16); }).find("got BFloat16 on cuda"), std::string::npos);
  EXPECT_NE(refusal([&] { plan({.gpu_kernels = {.deterministic = true}}); }).find("on a CPU all are"),
            std::string::npos);
  EXPECT_NE(refusal([&] { plan({.gpu_kernels = {.cudnn_benchmark = true}}); }).find("leave --cudnn-benchmark out"),
            std::string::npos);
}

}  // namespace
}  // namespace axonn
