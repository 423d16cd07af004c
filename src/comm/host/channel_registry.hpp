#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/host/queued_operation.hpp"

namespace axonn {

// The channels of one rank's communicators, by number. Two communicators that share a rank have
// different numbers; those that share none may have the same. A new communicator takes the largest
// next() of its members, which they find out on the channel of agreement(). MPI calls this the
// agreement on a context id.
//
// A channel that is given back serves the next communicator with the same name and members, without
// an agreement. So a long program needs only as many channels as it has communicators at a time.
// All ranks make and destroy the communicators of a group in the same order.
//
// The upper bits of a transport's channel are no number: they label each message with its call
// (QueuedOperation), so that messages of different calls do not meet.
class ChannelRegistry {
 public:
  // `largest_channel` is the transport's.
  explicit ChannelRegistry(uint32_t largest_channel);

  // The smallest number that no communicator of this rank has had; the job's first is 1.
  int64_t next() const { return next_; }

  // A channel that was given back, or null.
  std::shared_ptr<Channel> reuse(const Group& group, const std::string& name);

  // A new channel; `number` is the largest next() of all members. UserError when the transport has
  // no more channels.
  std::shared_ptr<Channel> make(const Group& group, const std::string& name, int64_t number);

  // The channel on which the members of any group agree. Nothing else is sent on it, and it is not
  // kept when it is given back.
  std::shared_ptr<Channel> agreement(const Group& group, const std::string& name) const;

  void give_back(std::shared_ptr<Channel> channel);

 private:
  std::shared_ptr<Channel> numbered(int64_t number, const Group& group, const std::string& name) const;

  const uint32_t largest_channel_;
  const int64_t largest_number_;
  int64_t next_ = 1;
  std::map<std::string, std::vector<std::shared_ptr<Channel>>> free_;  // by name and members
};

}  // namespace axonn
