// scale: start-up over TCP with many processes of this machine that may open few files.
//   build/release/bin/scale --ranks 256 --files 64
// Prints the seconds until all ranks are up, the bytes that rank 0 sends until then, and per rank
// the messages of a barrier and the open sockets after it.
// Or what a rank of a larger job sends, counted without the others (scale_simulated.hpp):
//   build/release/bin/scale --simulate 8x8x32x32
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "comm/host/channel_registry.hpp"
#include "comm/host/progress_engine.hpp"
#include "comm/host_communicator.hpp"
#include "transport/loopback.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "scale_simulated.hpp"
#include "scale_start_up.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;
using Clock = std::chrono::steady_clock;

constexpr const char* kWhere = "bench.scale";

struct Options {
  int ranks = 256;
  int files = 64;
  bool all_reduce = false;
  std::string simulate;
};

// The result of a rank, in memory that it shares with the others.
struct Result {
  double seconds_until_up = 0;
  size_t bytes_at_start = 0;
  int barrier_messages = 0;
  int all_reduce_messages = 0;
  int sockets = 0;
};

class CountingTransport final : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> below, int& messages) : below_(std::move(below)), messages_(messages) {}

  std::string_view name() const override { return below_->name(); }
  int rank() const override { return below_->rank(); }
  int ranks() const override { return below_->ranks(); }
  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override {
    ++messages_;
    return below_->send(peer, channel, data, bytes);
  }
  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override {
    return below_->receive(peer, channel, data, bytes);
  }
  bool test(Ticket ticket) override { return below_->test(ticket); }
  std::optional<Letter> letter() override { return below_->letter(); }
  void check_others() override { below_->check_others(); }
  void abandon(const std::string& why) noexcept override { below_->abandon(why); }
  void abort(int exit_status) noexcept override { below_->abort(exit_status); }

 private:
  std::unique_ptr<Transport> below_;
  int& messages_;
};

int open_sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of the iterator itself
    count += std::filesystem::read_symlink(entry, gone).string().starts_with("socket:");
  }
  return count;
}

void run_rank(int rank, int port, const Options& options, Clock::time_point begin, Result& result) {
  int messages = 0;
  const auto make_transport = [&]() -> std::unique_ptr<Transport> {
    TcpMesh mesh =
        connect_tcp_mesh({.rank = rank, .ranks = options.ranks, .meeting_place = meet_at("127.0.0.1", port, kSecret)});
    result.bytes_at_start = mesh.bytes_sent;
    return std::make_unique<CountingTransport>(make_tcp_transport(std::move(mesh)), messages);
  };
  ProgressEngine engine(make_transport, {});
  result.seconds_until_up = std::chrono::duration<double>(Clock::now() - begin).count();
  engine.set_crowded(true);
  ChannelRegistry channels(engine.transport().largest_channel());
  Group group{.axes = {}, .ranks = std::vector<int>(static_cast<size_t>(options.ranks)), .index = rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  HostCommunicator host(engine, channels, channels.make(group, "world", 1), nullptr);
  Communicator& world = host;
  world.barrier().wait();
  result.barrier_messages = messages;
  if (options.all_reduce) {
    const auto value = at::zeros({1}, at::kDouble);
    world.all_reduce(value).wait();
    result.all_reduce_messages = messages - result.barrier_messages;
  }
  result.sockets = open_sockets();
  world.barrier().wait();
}

// Never returns.
void be_rank(int rank, int port, const Options& options, Clock::time_point begin, Result& result) {
  const rlimit limit{static_cast<rlim_t>(options.files), static_cast<rlim_t>(options.files)};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  try {
    run_rank(rank, port, options, begin, result);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

int run(const Options& options) {
  const size_t bytes = static_cast<size_t>(options.ranks) * sizeof(Result);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw BackendError(kWhere, "mmap of shared memory failed");
  const std::span results(static_cast<Result*>(memory), static_cast<size_t>(options.ranks));
  const int port = free_port();
  const auto begin = Clock::now();
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw BackendError(kWhere, "fork failed");
    if (child == 0) be_rank(rank, port, options, begin, results[static_cast<size_t>(rank)]);
  }
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed += status != 0;
  const auto most = [&](auto member) { return std::ranges::max(results, {}, member).*member; };
  std::printf("%d ranks with at most %d open files each, %d failed\n", options.ranks, options.files, failed);
  std::printf("  all up after              %6.2f s\n", most(&Result::seconds_until_up));
  std::printf("  sent by rank 0 until then %6.1f KB\n", static_cast<double>(results[0].bytes_at_start) / 1000);
  std::printf("  messages of a barrier     %6d per rank\n", most(&Result::barrier_messages));
  if (options.all_reduce) std::printf("  ... of a small all-reduce %6d per rank\n", most(&Result::all_reduce_messages));
  std::printf("  open sockets              %6d per rank at most\n", most(&Result::sockets));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Start-up over TCP with many processes of this machine");
  app.add_option("--ranks", options.ranks, "processes")->check(CLI::Range(2, 4096));
  app.add_option("--files", options.files, "limit of open files of each, soft and hard")->check(CLI::Range(16, 4096));
  app.add_flag("--all-reduce", options.all_reduce, "an all-reduce of 8 bytes after the barrier");
  app.add_option("--simulate", options.simulate, "a grid such as 8x8x32x32: count what its ranks send");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!options.simulate.empty()) return simulate_scale(options.simulate) ? 0 : 1;
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scale: %s\n", error.what());
    return 2;
  }
}
