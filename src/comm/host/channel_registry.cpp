#include "comm/host/channel_registry.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int64_t kIdsEach = 4;  // one per priority, and one left over: Transport::kLetters of the first
constexpr int64_t kAgreement = 0;
constexpr uint32_t kOfAgreements = uint32_t{1} << 30;  // in flight records, where each group counts its own
constexpr int kFewestQueueBits = 12, kMostLabelBits = 15;

// How the bits of a transport's channels are shared between queues and labels of calls: with 31,
// 16 and 15; with 23, as in MPI over UCX, 12 and 11. Up to 12 are all for queues.
int bits_of(uint32_t largest_channel) { return std::bit_width(uint64_t{largest_channel} + 1) - 1; }
int label_bits(uint32_t largest_channel) {
  return std::clamp(bits_of(largest_channel) - kFewestQueueBits, 0, kMostLabelBits);
}

int64_t largest_number(uint32_t largest_channel) {
  const int labels = label_bits(largest_channel);
  const int64_t channels =
      labels > 0 ? int64_t{1} << (bits_of(largest_channel) - labels) : int64_t{largest_channel} + 1;
  return channels / kIdsEach - 1;
}

std::string key_of(const Group& group, const std::string& name) {
  std::string key = name;
  for (const int rank : group.ranks) key += detail::concatenate(',', rank);
  return key;
}

}  // namespace

std::shared_ptr<Channel> ChannelRegistry::numbered(int64_t number, const Group& group, const std::string& name) const {
  auto channel = std::make_shared<Channel>();
  const int labels = label_bits(largest_channel_);
  channel->labels = {.shift = bits_of(largest_channel_) - labels, .mask = (uint32_t{1} << labels) - 1};
  channel->group = group;
  channel->name = name;
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    const auto index = static_cast<size_t>(priority);
    channel->ids[index] = static_cast<uint32_t>(number * kIdsEach) + static_cast<uint32_t>(index);
    channel->recorded_as[index] = channel->ids[index];
    channel->queues[index] = std::make_shared<OperationQueue>();
    channel->queues[index]->priority = priority;
  }
  return channel;
}

ChannelRegistry::ChannelRegistry(uint32_t largest_channel)
    : largest_channel_(largest_channel), largest_number_(largest_number(largest_channel)) {}

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
  auto channel = numbered(kAgreement, group, name);
  const std::string key = key_of(group, name);
  const auto hash = static_cast<uint32_t>(XXH3_64bits(key.data(), key.size()));
  for (uint32_t& recorded : channel->recorded_as) recorded |= kOfAgreements | (hash << 2 & (kOfAgreements - 1));
  return channel;
}

void ChannelRegistry::give_back(std::shared_ptr<Channel> channel) {
  if (channel->ids.front() == kAgreement * kIdsEach) return;
  free_[key_of(channel->group, channel->name)].push_back(std::move(channel));
}

}  // namespace axonn
