#include "axonn/comm/environment.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include <ATen/ops/empty.h>
#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/transport/launch.hpp"
#include "axonn/comm/same_settings.hpp"
#include "axonn/core/crash_report.hpp"
#include "axonn/core/env.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/version.hpp"
#include "comm/environment_impl.hpp"
#include "comm/host_communicator.hpp"
#include "comm/loaded_libraries.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "transport/startup/tcp_launch.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace axonn {
namespace {

std::unique_ptr<Environment::Impl> start() {
  check_loaded_libraries();
  prepare_nccl();
  crash::install();
  auto impl = std::make_unique<Environment::Impl>();
  const auto place = launched_place();
  if (place && place->launcher == Launcher::mpi) {
    impl->start([&] { return make_mpi_transport(impl->node, place->ranks); });
  } else if (const auto launch = tcp_launch()) {
    impl->node = {.rank = launch->local_rank, .ranks = launch->local_ranks};
    impl->start([&] {
      return make_tcp_transport({.rank = launch->rank, .ranks = launch->ranks, .meeting_place = launch->meeting_place});
    });
  }
  crash::set_rank(impl->rank(), impl->ranks());
  return impl;
}

Group whole_job(int rank, int ranks) {
  Group group{.axes = {}, .ranks = std::vector<int>(static_cast<size_t>(ranks)), .index = rank};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

}  // namespace

void Environment::Impl::start(const ProgressEngine::MakeTransport& make_transport, bool ends_process) {
  const int seconds = env::get_int("AXONN_TIMEOUT_SECONDS").value_or(600);
  AXONN_CHECK(seconds > 0, "comm.environment", "AXONN_TIMEOUT_SECONDS must be at least 1, got ", seconds);
  engine = std::make_unique<ProgressEngine>(
      make_transport, ProgressEngine::Options{.timeout = std::chrono::seconds(seconds), .ends_process = ends_process});
  engine->set_crowded(node.ranks > static_cast<int>(std::thread::hardware_concurrency()));
  shared_memory = env::get("AXONN_SHARED_MEMORY").value_or("1") != "0";
  if (shared_memory) node_memory = engine->transport().node_memory();
  channels.emplace(engine->transport().largest_channel());
}

void Environment::Impl::check_settings(Communicator& everyone) const {
  check_same_settings(
      everyone, {{"axonn's version", std::string(version())}, {"AXONN_SHARED_MEMORY", shared_memory ? "1" : "0"}});
}

std::unique_ptr<Communicator> Environment::Impl::for_agreement(const Group& group, const std::string& name) {
  return std::make_unique<HostCommunicator>(*engine, *channels, channels->agreement(group, name), nullptr);
}

std::shared_ptr<Channel> Environment::Impl::channel_for(const Group& group, const std::string& name) {
  if (auto channel = channels->reuse(group, name)) return channel;
  return channels->make(group, name, world ? agreed_number(group, name) : channels->next());
}

// Ranks that make different communicators at this point give different hashes.
int64_t Environment::Impl::agreed_number(const Group& group, const std::string& name) {
  std::string identity = name;
  for (const int member : group.ranks) identity += detail::concatenate(',', member);
  const auto hash = static_cast<int64_t>(XXH3_64bits(identity.data(), identity.size()));
  const at::Tensor largest = at::empty({3}, at::kLong);
  auto* const values = largest.mutable_data_ptr<int64_t>();
  values[0] = channels->next();
  values[1] = hash;
  values[2] = ~hash;
  for_agreement(group, name)
      ->all_reduce(largest, ReduceOp::max, {.priority = Priority::high, .tag = "making the communicator"})
      .wait();
  AXONN_CHECK(values[1] == hash && values[2] == ~hash, "comm.communicator", "group '", name,
              "' is another group on another of its ranks: ranks that share groups make them in the same order");
  return values[0];
}

Environment::Environment() : Environment(axonn::start()) {}

Environment::Environment(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->exceptions_before = std::uncaught_exceptions();
  const Group everyone = whole_job(rank(), ranks());
  if (ranks() > 1) impl_->check_settings(*impl_->for_agreement(everyone, "world"));
  impl_->world = communicator(everyone, "world");
}

Environment::~Environment() {
  if (!impl_->engine) return;
  if (std::uncaught_exceptions() > impl_->exceptions_before) {
    impl_->engine->abandon();
    return;
  }
  try {
    finish();
  } catch (const std::exception& error) {
    log::error("the end of the job: ", error.what());
    std::fflush(nullptr);
    abort(1);
  }
}

void Environment::finish() {
  if (!impl_->engine || std::exchange(impl_->finished, true)) return;
  impl_->engine->program_ends();
  impl_->world->barrier({.tag = "the end of the program"}).wait();
}

int Environment::rank() const { return impl_->rank(); }
int Environment::ranks() const { return impl_->ranks(); }
int Environment::local_rank() const { return impl_->node.rank; }
int Environment::local_ranks() const { return impl_->node.ranks; }
std::string_view Environment::transport() const { return impl_->engine ? impl_->engine->transport().name() : "self"; }
std::string_view Environment::library() const {
  return impl_->engine ? impl_->engine->transport().library() : std::string_view();
}
void Environment::set_flight_directory(const std::filesystem::path& directory) {
  if (impl_->engine) impl_->engine->set_flight_directory(directory);
}
void Environment::check_running() const {
  if (impl_->engine) impl_->engine->device_calls()->check();
}
bool Environment::hang_reported() const { return impl_->engine && impl_->engine->reported(); }
EngineCounters Environment::engine_counters() const {
  return impl_->engine ? impl_->engine->counters() : EngineCounters{};
}
std::shared_ptr<void> Environment::take_turn() {
  const auto turns = impl_->turns;
  const std::lock_guard lock(turns->mutex);
  const auto me = std::this_thread::get_id();
  AXONN_CHECK(turns->held == 0 || turns->thread == me, "comm.environment",
              "another thread is in a step of this job, and ranks would not agree on the order of two threads' calls; "
              "run the steps of all contexts in one thread, or one thread after the other");
  turns->thread = me;
  ++turns->held;
  return {turns.get(), [turns](void*) {
            const std::lock_guard end(turns->mutex);
            --turns->held;
          }};
}
Communicator& Environment::world() { return *impl_->world; }

std::unique_ptr<Communicator> Environment::communicator(const Group& group, const std::string& name, c10::Device device,
                                                        std::shared_ptr<const StepMoment> moment) {
  const auto member = [&](int r) { return r >= 0 && r < ranks(); };
  AXONN_CHECK(std::ranges::all_of(group.ranks, member), "comm.communicator", "group '", name,
              "' names ranks outside this job of ", ranks());
  AXONN_CHECK(group.index >= 0 && group.index < group.size() && group.ranks[static_cast<size_t>(group.index)] == rank(),
              "comm.communicator", "group '", name, "' must hold this rank (", rank(), ") at its index ", group.index);
  if (group.size() == 1) return std::make_unique<SelfCommunicator>(group, device);
  const auto channel = impl_->channel_for(group, name);
  channel->moment = moment;
  auto on_cpu = std::make_unique<HostCommunicator>(*impl_->engine, *impl_->channels, channel, impl_->node_memory);
  if (device.is_cpu()) return on_cpu;
  return make_nccl_communicator(group, name, device,
                                {.cpu = std::move(on_cpu),
                                 .calls = impl_->engine->device_calls(),
                                 .channels = channel->ids,
                                 .moment = std::move(moment)});
}

void Environment::abort(int exit_status) noexcept {
  if (impl_->engine) impl_->engine->abort(exit_status);
  std::_Exit(exit_status);
}

}  // namespace axonn
