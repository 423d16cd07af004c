#include "comm/nccl/device_check.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

struct Place {
  std::array<char, 64> host{};
  std::array<char, 64> host_for_nccl{};
  std::array<char, 32> bus{};
  std::array<char, 96> kind{};
};

bool same_gpu(const Place& a, const Place& b) {
  return a.host == b.host && a.host_for_nccl == b.host_for_nccl && a.bus == b.bus;
}

Place place_of(c10::Device device) {
  Place place;
  (void)gethostname(place.host.data(), place.host.size() - 1);
  if (const auto host = env::get("NCCL_HOSTID"))
    std::copy_n(host->begin(), std::min(host->size(), place.host_for_nccl.size() - 1), place.host_for_nccl.begin());
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(place.bus.data(), static_cast<int>(place.bus.size()), device.index()));
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
  std::snprintf(place.kind.data(), place.kind.size(), "%.60s (sm_%d%d)", properties.name, properties.major,
                properties.minor);
  return place;
}

}  // namespace

void check_devices(Communicator& cpu, const Group& group, c10::Device device) {
  const Place mine = place_of(device);
  const auto bytes = static_cast<int64_t>(sizeof mine);
  const at::Tensor own = at::empty({bytes}, at::kByte), all = at::empty({bytes * cpu.size()}, at::kByte);
  std::memcpy(own.mutable_data_ptr(), &mine, sizeof mine);
  cpu.all_gather(own, all).wait();
  std::vector<Place> places(static_cast<size_t>(cpu.size()));
  std::memcpy(places.data(), all.const_data_ptr(), all.nbytes());
  for (size_t i = 1; i < places.size(); ++i) {
    AXONN_CHECK(places[i].kind == places[0].kind, "comm.nccl", "the GPUs of ranks ", group.ranks[0], " and ",
                group.ranks[i], " are of different kinds, ", places[0].kind.data(), " and ", places[i].kind.data(),
                "; start the job on GPUs of one kind");
    for (size_t j = 0; j < i; ++j)
      AXONN_CHECK(!same_gpu(places[j], places[i]), "comm.nccl", "ranks ", group.ranks[j], " and ", group.ranks[i],
                  " share the GPU ", places[i].bus.data(), " of ", places[i].host.data(),
                  "; start as many ranks as there are GPUs, or give each rank another NCCL_HOSTID to test on one GPU");
  }
}

}  // namespace axonn
