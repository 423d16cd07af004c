#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/host/queued_operation.hpp"

namespace axonn {

// Gives every living communicator a channel of its own without asking other ranks: a hash of the group's name, its members and how many
// live with the same ones. Channels are given back and used again, so that a long program needs no more than it has communicators at a
// time; all ranks make and destroy communicators of a group in the same order. Two groups of one rank with the same channel are an
// InternalError.
class ChannelRegistry {
 public:
  explicit ChannelRegistry(uint32_t largest_channel) : largest_channel_(largest_channel) {}
  std::shared_ptr<Channel> take(const Group& group, const std::string& name);
  void give_back(std::shared_ptr<Channel> channel);

 private:
  std::shared_ptr<Channel> make(const Group& group, const std::string& name, const std::string& key);

  const uint32_t largest_channel_;
  std::map<std::string, int> made_;                                    // by name and members
  std::map<std::string, std::vector<std::shared_ptr<Channel>>> free_;  // likewise
  std::map<uint32_t, std::string> owner_;                              // of every channel given out
};

}  // namespace axonn
