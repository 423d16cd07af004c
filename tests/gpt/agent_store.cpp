// Stands in for torchrun's agent: keeps a store, prints its port, ends with its input.
#include <cstdio>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

int main() {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::printf("%d\n", int{store->getPort()});
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}
