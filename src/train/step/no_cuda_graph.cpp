#include "axonn/core/error.hpp"
#include "train/step/launch_graph.hpp"

namespace axonn {

std::unique_ptr<LaunchGraph> make_cuda_graph() {
  throw BackendError("train.graph", "this build has no CUDA, so no step is launched as a graph; use preset cuda");
}

}  // namespace axonn
