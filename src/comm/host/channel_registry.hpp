#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/host/queued_operation.hpp"

namespace axonn {

// Gives every living communicator its own channel without asking other ranks. The channel is a hash
// of the group's name, its members and the number of living communicators with the same ones.
// Channels are reused, so a long program needs only as many as it has communicators at a time. All
// ranks make and destroy the communicators of a group in the same order. InternalError when two
// groups of one rank have the same channel.
class ChannelRegistry {
 public:
  explicit ChannelRegistry(uint32_t largest_channel) : largest_channel_(largest_channel) {}
  std::shared_ptr<Channel> take(const Group& group, const std::string& name);
  void give_back(std::shared_ptr<Channel> channel);

 private:
  std::shared_ptr<Channel> make(const Group& group, const std::string& name, const std::string& key);

  const uint32_t largest_channel_;
  std::map<std::string, int> made_;                                    // channels made, by name and members
  std::map<std::string, std::vector<std::shared_ptr<Channel>>> free_;  // channels to reuse, by name and members
  std::map<uint32_t, std::string> owner_;                              // group of every channel made
};

}  // namespace axonn
