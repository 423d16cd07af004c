#include "axonn/layers/device_choice.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "axonn/core/error.hpp"

namespace axonn {

// LibTorch's CUDA part registers itself when it is linked, so no file here depends on how axonn was
// built.
c10::Device choose_device(c10::Device wanted, int local_rank) {
  if (wanted.is_cpu()) return wanted;
  AXONN_CHECK(wanted.is_cuda(), "layers.context", "device must be cpu or cuda, got ", wanted.str());
  AXONN_CHECK(c10::impl::hasDeviceGuardImpl(c10::kCUDA), "layers.context",
              "this build has no CUDA; configure with -DAXONN_WITH_CUDA=ON (preset cuda), or compute on the CPU "
              "(--device cpu)");
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  const int devices = cuda.deviceCount();
  AXONN_CHECK(devices > 0, "layers.context",
              "this machine has no CUDA device that its driver lets this process use; nvidia-smi lists them, --device "
              "cpu does without");
  const int index = wanted.has_index() ? wanted.index() : local_rank % devices;
  AXONN_CHECK(index < devices, "layers.context", wanted.str(), " does not exist; this machine has ", devices,
              ", from cuda:0 on");
  const c10::Device chosen(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  cuda.setDevice(chosen);
  return chosen;
}

}  // namespace axonn
