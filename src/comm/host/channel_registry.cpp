#include "comm/host/channel_registry.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int64_t kIdsEach = 4;  // one per priority, and one left over: Transport::kLetters of the first
constexpr int64_t kAgreement = 0;

std::string key_of(const Group& group, const std::string& name) {
  std::string key = name;
  for (const int rank : group.ranks) key += detail::concatenate(',', rank);
  return key;
}

std::shared_ptr<Channel> numbered(int64_t number, const Group& group, const std::string& name) {
  auto channel = std::make_shared<Channel>();
  channel->group = group;
  channel->name = name;
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    const auto index = static_cast<size_t>(priority);
    channel->ids[index] = static_cast<uint32_t>(number * kIdsEach) + static_cast<uint32_t>(index);
    channel->queues[index] = std::make_shared<OperationQueue>();
    channel->queues[index]->priority = priority;
  }
  return channel;
}

}  // namespace

ChannelRegistry::ChannelRegistry(uint32_t largest_channel)
    : largest_number_((int64_t{largest_channel} + 1) / kIdsEach - 1) {}

std::shared_ptr<Channel> ChannelRegistry::reuse(const Group& group, const std::string& name) {
  auto& free = free_[key_of(group, name)];
  if (free.empty()) return nullptr;
  std::shared_ptr<Channel> channel = std::move(free.back());
  free.pop_back();
  return channel;
}

std::shared_ptr<Channel> ChannelRegistry::make(const Group& group, const std::string& name, int64_t number) {
  AXONN_ASSERT(number >= next_, "channel ", number, " of group '", name, "' was used before");
  AXONN_CHECK(number <= largest_number_, "comm.communicator", "group '", name, "' would be communicator ", number,
              " of a rank, and this transport has channels for ", largest_number_,
              "; make it once, or destroy those of the same name and ranks first");
  next_ = number + 1;
  return numbered(number, group, name);
}

std::shared_ptr<Channel> ChannelRegistry::agreement(const Group& group, const std::string& name) const {
  return numbered(kAgreement, group, name);
}

void ChannelRegistry::give_back(std::shared_ptr<Channel> channel) {
  if (channel->ids.front() == kAgreement * kIdsEach) return;
  free_[key_of(channel->group, channel->name)].push_back(std::move(channel));
}

}  // namespace axonn
