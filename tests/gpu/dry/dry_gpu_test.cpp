// The dry GPU itself, through LibTorch: memory, failures, and what a stream under capture forbids.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

namespace {

using c10::cuda::CUDAStream;

const auto kFloats = at::TensorOptions().device(c10::kCUDA).dtype(at::kFloat);

int64_t touched_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(DryGpu, MemoryIsReservedAndNeverTouched) {
  at::empty({16}, kFloats).add_(1);
  const int64_t before = touched_bytes(), bytes = int64_t{60} << 30;
  const at::Tensor large = at::empty({bytes / 4}, kFloats);
  large.fill_(1).add_(1);
  EXPECT_EQ(large.sum().item<float>(), 4);  // as is every number from the device
  EXPECT_LT(touched_bytes() - before, bytes / 1000);
}

TEST(DryGpu, MoreThanTheDeviceHasIsRefused) {
  EXPECT_THROW(at::empty({int64_t{80} << 30}, kFloats.dtype(at::kByte)), c10::OutOfMemoryError);
}

class Captured : public testing::Test {
 protected:
  void SetUp() override {
    input_.mm(input_);  // the first product allocates a workspace
    graph_.capture_begin();
  }

  const CUDAStream stream_ = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard_{stream_};
  const at::Tensor input_ = at::empty({64, 64}, kFloats);
  at::cuda::CUDAGraph graph_;
};

TEST_F(Captured, ProductsAndKernelsMayBe) {
  input_.mm(input_).add_(1);
  graph_.capture_end();
  graph_.replay();
}

TEST_F(Captured, AWaitOfTheHostIsRefused) {
  EXPECT_THROW(input_.sum().item<float>(), c10::Error);
  EXPECT_THROW(graph_.capture_end(), c10::Error);
}

TEST_F(Captured, AWaitForTheWholeDeviceIsRefused) {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  EXPECT_THROW(graph_.capture_end(), c10::Error);
}

TEST_F(Captured, AnAllocationIsRefused) {
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 1024), cudaErrorStreamCaptureUnsupported);
  EXPECT_THROW(graph_.capture_end(), c10::Error);
}

TEST_F(Captured, AnotherStreamMayJoinAndMustComeBack) {
  const CUDAStream other = c10::cuda::getStreamFromPool();
  at::cuda::CUDAEvent fork, joined;
  fork.record(stream_);
  fork.block(other);
  {
    const c10::cuda::CUDAStreamGuard there(other);
    input_.add_(1);
  }
  joined.record(other);
  joined.block(stream_);
  graph_.capture_end();
}

TEST_F(Captured, AStreamThatDoesNotComeBackIsRefused) {
  const CUDAStream other = c10::cuda::getStreamFromPool();
  at::cuda::CUDAEvent fork;
  fork.record(stream_);
  fork.block(other);
  {
    const c10::cuda::CUDAStreamGuard there(other);
    input_.add_(1);
  }
  EXPECT_THROW(graph_.capture_end(), c10::Error);
}

TEST(DryGpuCapture, WorkBeforeTheCaptureCannotBeWaitedFor) {
  const CUDAStream stream = c10::cuda::getStreamFromPool(), other = c10::cuda::getStreamFromPool();
  const at::Tensor input = at::empty({64}, kFloats);
  at::cuda::CUDAEvent earlier;
  {
    const c10::cuda::CUDAStreamGuard there(other);
    input.add_(1);
  }
  earlier.record(other);
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  EXPECT_THROW(earlier.block(stream), c10::Error);
  EXPECT_THROW(graph.capture_end(), c10::Error);
}

TEST(DryGpuStreams, WorkForADestroyedStreamIsRefused) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
}

}  // namespace
