// The errors of NCCL's queues on a GPU where one of the first kernels fails (DRY_GPU_FAIL).
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int kFirstKernels = 200;

TEST(NcclDevice, AKernelThatFailsIsNotReportedAsAnErrorOfNccl) {
  run_local(2, [](Environment& environment) {
    EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");  // before any thread asks NCCL for something
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(environment.rank()));
    const auto pair =
        environment.communicator({.axes = {}, .ranks = {0, 1}, .index = environment.rank()}, "pair", device);
    const at::Tensor data = at::ones({1000}, at::TensorOptions().device(device));
    Request before = pair->all_reduce(data);
    environment.world().barrier().wait();  // the ranks are threads, whose kernels are counted together
    EXPECT_THROW(for (int i = 0; i < kFirstKernels; ++i) data.add_(1), c10::Error);
    for (const auto& call : {std::function([&] { before.wait(); }), std::function([&] { pair->all_reduce(data); })}) {
      try {
        call();
        ADD_FAILURE() << "no error";
      } catch (const BackendError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("the GPU had failed when group 'pair' used it: an illegal memory access"), text.npos)
            << text;
        EXPECT_EQ(text.find("unhandled cuda error"), text.npos) << text;
      }
    }
  });
}

}  // namespace
}  // namespace axonn
