// Rank 0 sends less than rank 1 expects, which MPI itself takes without an error.
#include <cstdio>

#include <ATen/ops/zeros.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"

int main() {
  axonn::Environment environment;
  const at::Tensor data = at::zeros({environment.rank() == 0 ? 10 : 20}, at::kFloat);
  try {
    environment.world().broadcast(data, 0).wait();
    environment.world().barrier().wait();
  } catch (const axonn::BackendError& error) {
    if (environment.rank() != 1) return 1;
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    environment.abort(1);
  }
}
