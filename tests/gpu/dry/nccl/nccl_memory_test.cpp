// When the memory of a collective's tensors may be used again. The dry GPU does not catch up with
// the host here, so no event passes by itself.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/comm/environment.hpp"

namespace axonn {
namespace {

using c10::cuda::CUDAStream;

class NcclMemory : public testing::Test {
 protected:
  // Calls `body` on two ranks. It gives its tensor to a collective and says what becomes of the
  // request. Returns on how many ranks the next tensor of the stream `from` has the same memory.
  static int ranks_that_use_it_again(const std::function<void(Communicator&, const at::Tensor&)>& body,
                                     bool side_stream = false) {
    std::atomic<int> again = 0;
    run_local(2, [&](Environment& environment) {
      const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(environment.rank()));
      const c10::cuda::CUDAGuard guard(device);
      const auto pair =
          environment.communicator({.axes = {}, .ranks = {0, 1}, .index = environment.rank()}, "pair", device);
      const CUDAStream from = side_stream ? c10::cuda::getStreamFromPool() : c10::cuda::getDefaultCUDAStream();
      const auto tensor = [&] {
        const c10::cuda::CUDAStreamGuard there(from);
        return at::empty({64 << 20}, at::TensorOptions().device(device).dtype(at::kByte));
      };
      at::Tensor data = tensor();
      const void* const memory = data.const_data_ptr();
      body(*pair, data);
      data.reset();
      again += tensor().const_data_ptr() == memory;
    });
    return again;
  }
};

TEST_F(NcclMemory, IsUsedAgainAfterAWait) {
  EXPECT_EQ(ranks_that_use_it_again([](Communicator& pair, const at::Tensor& data) { pair.all_reduce(data).wait(); }),
            2);
}

TEST_F(NcclMemory, IsUsedAgainThoughTheRequestIsKept) {
  Request kept[2];
  EXPECT_EQ(ranks_that_use_it_again([&](Communicator& pair, const at::Tensor& data) {
              Request& request = kept[pair.rank()];
              request = pair.all_reduce(data);
              request.wait();
            }),
            2);
}

TEST_F(NcclMemory, IsNotUsedAgainWithoutAWait) {
  EXPECT_EQ(ranks_that_use_it_again([](Communicator& pair, const at::Tensor& data) { pair.all_reduce(data); }), 0);
}

TEST_F(NcclMemory, IsNotUsedAgainIfOnlyAskedWhetherItIsDone) {
  EXPECT_EQ(ranks_that_use_it_again([](Communicator& pair, const at::Tensor& data) {
              const Request request = pair.all_reduce(data);
              EXPECT_FALSE(request.done());
            }),
            0);
}

TEST_F(NcclMemory, IsNotUsedAgainIfOnlyAnotherStreamWaits) {
  EXPECT_EQ(ranks_that_use_it_again([](Communicator& pair, const at::Tensor& data) {
              const Request request = pair.all_reduce(data);
              const c10::cuda::CUDAStreamGuard other(c10::cuda::getStreamFromPool());
              request.wait();
            }),
            0);
}

TEST_F(NcclMemory, IsNotUsedAgainOnTheStreamThatMadeTheTensorAndDoesNotWait) {
  EXPECT_EQ(ranks_that_use_it_again([](Communicator& pair, const at::Tensor& data) { pair.all_reduce(data).wait(); },
                                    /*side_stream=*/true),
            0);
}

TEST_F(NcclMemory, OfAMessageIsUsedAgainAfterAWaitOnly) {
  const auto exchange = [](Communicator& pair, const at::Tensor& data, bool wait) {
    const Request sent = pair.send(data, 1 - pair.rank());
    pair.receive(at::empty({data.numel()}, data.options()), 1 - pair.rank()).wait();
    if (wait) sent.wait();
  };
  EXPECT_EQ(ranks_that_use_it_again([&](auto& pair, const auto& data) { exchange(pair, data, true); }), 2);
  EXPECT_EQ(ranks_that_use_it_again([&](auto& pair, const auto& data) { exchange(pair, data, false); }), 0);
}

}  // namespace
}  // namespace axonn
