#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "comm/queued_operation.hpp"

namespace axonn {

// Gives every communicator channels of its own without asking other ranks: a hash of the group's name, its members and how many were made
// with the same ones before. Two groups of one rank with the same channels are an InternalError.
class ChannelRegistry {
 public:
  explicit ChannelRegistry(uint32_t largest_channel) : largest_channel_(largest_channel) {}
  std::shared_ptr<Channel> make(const Group& group, const std::string& name);

 private:
  const uint32_t largest_channel_;
  std::map<std::string, int> made_;
  std::map<uint32_t, std::string> owner_;  // of every channel given out
};

}  // namespace axonn
