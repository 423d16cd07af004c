// Messages over NCCL where the dry GPU's first ncclSend fails (DRY_GPU_FAIL).
#include <gtest/gtest.h>

#include <atomic>

#include <dlfcn.h>

#include <ATen/ops/empty.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

int open_groups() {
  const auto count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "dry_open_nccl_groups"));
  return count != nullptr ? count() : -1;
}

TEST(NcclMessages, ASendThatFailsIsAnErrorOfItsRequestAndOfAllThatFollows) {
  std::atomic<int> failed = 0;
  run_local(2, [&](Environment& environment) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(environment.rank()));
    const auto pair =
        environment.communicator({.axes = {}, .ranks = {0, 1}, .index = environment.rank()}, "pair", device);
    const at::Tensor data = at::empty({1000}, at::TensorOptions().device(device));
    Request sent = pair->send(data, 1 - environment.rank());
    try {
      sent.wait();
    } catch (const BackendError&) {
      ++failed;
      EXPECT_THROW(sent.done(), BackendError);
      EXPECT_THROW(pair->all_reduce(data), BackendError);
    }
    EXPECT_EQ(open_groups(), 0);
  });
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace axonn
