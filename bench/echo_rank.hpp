#pragma once

#include <map>
#include <memory>

#include "axonn/grid/grid.hpp"
#include "comm/host/channel_registry.hpp"
#include "comm/host/progress_engine.hpp"
#include "comm/host_communicator.hpp"
#include "comm/self_communicator.hpp"
#include "echo_transport.hpp"

namespace axonn::bench {

// One rank of a job whose others are its echo.
class EchoRank {
 public:
  EchoRank(const Grid& grid, int rank)
      : grid_(grid),
        rank_(rank),
        engine_([&] { return make_echo_transport(rank, grid.ranks(), kChannels, sent_); }, {}),
        channels_(kChannels) {}

  Communicator& group(AxisSet axes) {
    auto& made = groups_[axes.bits()];
    if (made) return *made;
    Group group = grid_.group(rank_, axes);
    if (group.size() == 1)
      made = std::make_unique<SelfCommunicator>(group, c10::kCPU);
    else
      made = std::make_unique<HostCommunicator>(
          engine_, channels_, channels_.make(group, axes.to_string(), static_cast<int>(groups_.size())), nullptr);
    return *made;
  }
  Communicator& everyone() { return group(AxisSet::all()); }
  const Sent& sent() const { return sent_; }

 private:
  static constexpr uint32_t kChannels = 32767;
  const Grid& grid_;
  const int rank_;
  Sent sent_;
  ProgressEngine engine_;
  ChannelRegistry channels_;
  std::map<uint8_t, std::unique_ptr<Communicator>> groups_;
};

}  // namespace axonn::bench
