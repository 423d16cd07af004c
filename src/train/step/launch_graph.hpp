#pragma once

#include <functional>
#include <memory>

namespace axonn {

// The launches of some work on the current stream, recorded once and launched any number of times.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Writes down what `work` launches; nothing of it runs. Tensors that it makes stay where they are
  // until the graph ends. Once. Errors of `work` pass through.
  virtual void record(const std::function<void()>& work) = 0;
  virtual void launch() = 0;  // after record()
};

// A CUDA graph. The current stream is not the default one. BackendError if CUDA is not built in.
std::unique_ptr<LaunchGraph> make_cuda_graph();

}  // namespace axonn
