// Prints the number of GPUs and exits with 0, or prints why there are none and exits with 77
// (CTest: skipped).
#include <cstdio>

#include <cuda_runtime_api.h>

int main() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device: %s\n",
                result != cudaSuccess ? cudaGetErrorString(result) : "the driver lists none");
    return 77;
  }
  std::printf("%d CUDA device%s\n", devices, devices == 1 ? "" : "s");
  return 0;
}
