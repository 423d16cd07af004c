#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "axonn/comm/environment.hpp"
#include "comm/host/channel_registry.hpp"
#include "comm/host/progress_engine.hpp"
#include "transport/mpi_transport.hpp"

namespace axonn {

struct Environment::Impl {
  NodePlace node;
  std::unique_ptr<ProgressEngine> engine;  // null for a single process without an MPI launcher
  std::optional<ChannelRegistry> channels;
  bool shared_memory = true;  // wanted
  std::shared_ptr<NodeMemory> node_memory;
  std::unique_ptr<Communicator> world;
  bool finished = false;  // finish() was called
  int exceptions_before = 0;
  // The thread that holds a turn, and how many. Turns keep it, as they may outlive the environment.
  struct Turns {
    std::mutex mutex;
    std::thread::id thread;
    int held = 0;
  };
  std::shared_ptr<Turns> turns = std::make_shared<Turns>();

  int rank() const { return engine ? engine->transport().rank() : 0; }
  int ranks() const { return engine ? engine->transport().ranks() : 1; }
  void start(const ProgressEngine::MakeTransport& make_transport, bool ends_process = true);
  void check_settings(Communicator& everyone) const;
  // Over messages, before anything is known to be the same on all ranks.
  std::unique_ptr<Communicator> for_agreement(const Group& group, const std::string& name);
  std::shared_ptr<Channel> channel_for(const Group& group, const std::string& name);
  int64_t agreed_number(const Group& group, const std::string& name);
};

}  // namespace axonn
