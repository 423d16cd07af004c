#include "axonn/core/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"

namespace axonn {

void prepare_nccl() {}

std::unique_ptr<Communicator> make_nccl_communicator(const Group&, const std::string& name, c10::Device device,
                                                     NcclHost) {
  throw BackendError(
      "comm.environment",
      detail::concatenate("group '", name, "' needs NCCL for tensors on ", device.str(),
                          ", which is not built in; build with -DAXONN_WITH_CUDA=ON, or use --device cpu"));
}

}  // namespace axonn
