#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "axonn/core/error.hpp"
#include "comm/environment_impl.hpp"
#include "comm/loaded_libraries.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "transport/local_transport.hpp"

namespace axonn {

void run_local(int ranks, const std::function<void(Environment&)>& body) {
  AXONN_CHECK(ranks >= 1, "comm.run_local", "needs at least one rank, got ", ranks);
  check_loaded_libraries();
  prepare_nccl();
  const auto hub = make_local_hub(ranks);
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto run_rank = [&](int rank) {
    try {
      auto impl = std::make_unique<Environment::Impl>();
      impl->node = {.rank = rank, .ranks = ranks};
      impl->start([&] { return make_local_transport(hub, rank); }, /*ends_process=*/false);
      Environment environment(std::move(impl));
      try {
        body(environment);
        environment.finish();
      } catch (...) {  // before the others see this failure, so that their errors come second
        const std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
        throw;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace axonn
