#include "comm/channel_registry.hpp"

#include <xxhash.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr uint32_t kChannelsEach = 4;  // one a priority, rounded up

}  // namespace

std::shared_ptr<Channel> ChannelRegistry::make(const Group& group, const std::string& name) {
  std::string key = name;
  for (const int rank : group.ranks) key += detail::concatenate(',', rank);
  key += detail::concatenate('#', made_[key]++);

  const uint32_t choices = static_cast<uint32_t>((uint64_t{largest_channel_} + 1) / kChannelsEach);
  const uint32_t first = static_cast<uint32_t>(XXH3_64bits(key.data(), key.size()) % choices) * kChannelsEach;
  const auto [other, is_new] = owner_.emplace(first, key);
  AXONN_ASSERT(is_new, "groups '", other->second, "' and '", key, "' have the same channel; give one of them another name");

  auto channel = std::make_shared<Channel>();
  channel->group = group;
  channel->name = name;
  channel->ids = {first, first + 1, first + 2};
  return channel;
}

}  // namespace axonn
