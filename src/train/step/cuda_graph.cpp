#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "train/step/launch_graph.hpp"

namespace axonn {
namespace {

class CudaGraph : public LaunchGraph {
 public:
  // Its tensors come from memory of its own: what the steps before have kept is given back first.
  void record(const std::function<void()>& work) override {
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_.capture_begin();
    try {
      work();
    } catch (...) {
      end_broken_capture();
      throw;
    }
    graph_.capture_end();
  }
  void launch() override { graph_.replay(); }

 private:
  void end_broken_capture() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {  // the capture's error follows from that of the work
    }
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<LaunchGraph> make_cuda_graph() { return std::make_unique<CudaGraph>(); }

}  // namespace axonn
