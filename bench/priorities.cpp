// priorities: how long 8 bytes of high priority take beside all-reduces of low priority, between
// two ranks on hosts of their own. bench/priorities.py starts it on shaped hosts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"

namespace {

using namespace axonn;
using Clock = std::chrono::steady_clock;

constexpr int64_t kElements = 1 << 20;  // per all-reduce
constexpr auto kPause = std::chrono::microseconds(50);

// Two all-reduces, of which one is always under way. They end on both ranks with the one in which
// rank 0 says so.
class LowTraffic {
 public:
  explicit LowTraffic(Communicator& world) : world_(world) {
    for (size_t i = 0; i < data_.size(); ++i) launch(i);
  }

  // Returns false after the last one.
  bool go_on(bool last) {
    if (!requests_[next_].done()) return true;
    requests_[next_].wait();
    ++done_;
    const bool ended = data_[next_][0].item<float>() > 0;
    if (!ended) launch(next_, last);
    next_ = 1 - next_;
    if (ended) requests_[next_].wait();
    return !ended;
  }

  double bytes() const { return static_cast<double>(done_) * kElements * 4; }

 private:
  void launch(size_t i, bool last = false) {
    data_[i].zero_();
    if (last) data_[i][0] = 1;
    requests_[i] = world_.all_reduce(data_[i], ReduceOp::sum, {.priority = Priority::low});
  }

  Communicator& world_;
  std::array<at::Tensor, 2> data_ = {at::zeros({kElements}, at::kFloat), at::zeros({kElements}, at::kFloat)};
  std::array<Request, 2> requests_;
  size_t next_ = 0;
  int64_t done_ = 0;
};

int64_t now() { return Clock::now().time_since_epoch().count(); }

// Rank 0 sends the time: both hosts are this machine.
void send(Communicator& world, LowTraffic& low, int messages, std::chrono::milliseconds interval) {
  std::vector<at::Tensor> times;
  std::vector<Request> requests;
  auto next = Clock::now() + std::chrono::seconds(1);  // after the low traffic has begun
  while (low.go_on(static_cast<int>(times.size()) == messages)) {
    if (static_cast<int>(times.size()) < messages && Clock::now() >= next) {
      times.push_back(at::zeros({1}, at::kLong));
      times.back()[0] = now();
      requests.push_back(world.send(times.back(), 1, {.priority = Priority::high}));
      next += interval;
    }
    std::this_thread::sleep_for(kPause);
  }
  for (const Request& request : requests) request.wait();
}

std::vector<double> receive(Communicator& world, LowTraffic& low, int messages) {
  std::vector<double> milliseconds;
  const at::Tensor sent = at::zeros({1}, at::kLong);
  Request request = world.receive(sent, 0, {.priority = Priority::high});
  bool goes_on = true;
  while (goes_on || static_cast<int>(milliseconds.size()) < messages) {
    if (goes_on) goes_on = low.go_on(false);
    if (static_cast<int>(milliseconds.size()) < messages && request.done()) {
      milliseconds.push_back(static_cast<double>(now() - sent.item<int64_t>()) / 1e6);
      request.wait();
      if (static_cast<int>(milliseconds.size()) < messages)
        request = world.receive(sent, 0, {.priority = Priority::high});
    }
    std::this_thread::sleep_for(kPause);
  }
  std::ranges::sort(milliseconds);
  return milliseconds;
}

void run(int messages, std::chrono::milliseconds interval) {
  Environment environment;
  Communicator& world = environment.world();
  AXONN_CHECK(environment.ranks() == 2, "bench.priorities", "needs two ranks, got ", environment.ranks(),
              "; start it with bench/priorities.py");
  LowTraffic low(world);
  const auto begin = Clock::now();
  if (world.rank() == 0) return send(world, low, messages, interval);
  const auto milliseconds = receive(world, low, messages);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("8 bytes beside %.0f Mbit/s of low priority over %s: median %.1f ms, longest of %d %.1f ms\n",
              low.bytes() * 8e-6 / seconds, std::string(environment.transport()).c_str(),
              milliseconds[milliseconds.size() / 2], messages, milliseconds.back());
}

}  // namespace

int main(int argc, char** argv) {
  int messages = 100, interval = 50;
  CLI::App app("8 bytes of high priority beside low traffic between two ranks");
  app.add_option("--messages", messages, "of high priority")->check(CLI::Range(1, 100'000));
  app.add_option("--interval", interval, "milliseconds between two of them")->check(CLI::Range(1, 10'000));
  CLI11_PARSE(app, argc, argv);
  try {
    run(messages, std::chrono::milliseconds(interval));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "priorities: %s\n", error.what());
    return 1;
  }
}
