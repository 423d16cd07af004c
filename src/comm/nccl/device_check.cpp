#include "comm/nccl/device_check.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

#include <unistd.h>

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

struct Place {
  std::array<char, 64> host{};
  std::array<char, 64> host_for_nccl{};
  std::array<char, 32> bus{};
  std::array<char, 96> kind{};

  auto gpu() const { return std::tie(host, host_for_nccl, bus); }
};

// All that ranks learn of each other where nothing is wrong.
struct Digest {
  uint64_t gpu = 0;
  uint64_t kind = 0;
};

template <typename Item>
std::vector<Item> gathered(Communicator& cpu, const Item& mine) {
  const auto bytes = static_cast<int64_t>(sizeof mine);
  const at::Tensor own = at::empty({bytes}, at::kByte), all = at::empty({bytes * cpu.size()}, at::kByte);
  std::memcpy(own.mutable_data_ptr(), &mine, sizeof mine);
  cpu.all_gather(own, all, {}, {.tag = "NCCL start-up"}).wait();
  std::vector<Item> items(static_cast<size_t>(cpu.size()));
  std::memcpy(items.data(), all.const_data_ptr(), all.nbytes());
  return items;
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

Digest digest_of(const Place& place) {
  constexpr size_t kGpu = offsetof(Place, kind);
  return {XXH3_64bits(&place, kGpu), XXH3_64bits(place.kind.data(), place.kind.size())};
}

bool all_differ_in_gpu_alone(std::vector<Digest> digests) {
  std::ranges::sort(digests, {}, &Digest::gpu);
  return std::ranges::adjacent_find(digests, {}, &Digest::gpu) == digests.end() &&
         std::ranges::all_of(digests, [&](const Digest& one) { return one.kind == digests.front().kind; });
}

}  // namespace

void check_devices(Communicator& cpu, const Group& group, c10::Device device) {
  const Place mine = place_of(device);
  if (all_differ_in_gpu_alone(gathered(cpu, digest_of(mine)))) return;
  const std::vector<Place> places = gathered(cpu, mine);
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const size_t i : order)
    AXONN_CHECK(places[i].kind == places[0].kind, "comm.nccl", "the GPUs of ranks ", group.ranks[0], " and ",
                group.ranks[i], " are of different kinds, ", places[0].kind.data(), " and ", places[i].kind.data(),
                "; start the job on GPUs of one kind");
  const auto gpu = [&](size_t i) { return places[i].gpu(); };
  std::ranges::stable_sort(order, {}, gpu);
  const auto shared = std::ranges::adjacent_find(order, {}, gpu);
  AXONN_CHECK(shared == order.end(), "comm.nccl", "ranks ", group.ranks[shared[0]], " and ", group.ranks[shared[1]],
              " share the GPU ", places[*shared].bus.data(), " of ", places[*shared].host.data(),
              "; start as many ranks as there are GPUs, or give each rank another NCCL_HOSTID to test on one GPU");
}

}  // namespace axonn
