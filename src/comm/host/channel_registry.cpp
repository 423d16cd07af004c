#include "comm/host/channel_registry.hpp"

#include <xxhash.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr uint32_t kChannelsEach = 4;  // one per priority, rounded up

std::string key_of(const Group& group, const std::string& name) {
  std::string key = name;
  for (const int rank : group.ranks) key += detail::concatenate(',', rank);
  return key;
}

}  // namespace

std::shared_ptr<Channel> ChannelRegistry::take(const Group& group, const std::string& name) {
  const std::string key = key_of(group, name);
  auto& free = free_[key];
  if (free.empty()) return make(group, name, detail::concatenate(key, '#', made_[key]++));
  std::shared_ptr<Channel> channel = std::move(free.back());
  free.pop_back();
  return channel;
}

void ChannelRegistry::give_back(std::shared_ptr<Channel> channel) {
  free_[key_of(channel->group, channel->name)].push_back(std::move(channel));
}

std::shared_ptr<Channel> ChannelRegistry::make(const Group& group, const std::string& name, const std::string& key) {
  const uint32_t choices = static_cast<uint32_t>((uint64_t{largest_channel_} + 1) / kChannelsEach);
  const uint32_t first = static_cast<uint32_t>(XXH3_64bits(key.data(), key.size()) % choices) * kChannelsEach;
  const auto [other, is_new] = owner_.emplace(first, key);
  AXONN_ASSERT(is_new, "groups '", other->second, "' and '", key,
               "' have the same channel; give one of them another name");

  auto channel = std::make_shared<Channel>();
  channel->group = group;
  channel->name = name;
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    const auto index = static_cast<size_t>(priority);
    channel->ids[index] = first + static_cast<uint32_t>(index);
    channel->queues[index] = std::make_shared<OperationQueue>();
    channel->queues[index]->priority = priority;
  }
  return channel;
}

}  // namespace axonn
