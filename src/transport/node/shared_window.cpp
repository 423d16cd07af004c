#include "transport/node/shared_window.hpp"

#include <algorithm>
#include <utility>

#include "transport/node/node_memory.hpp"

namespace axonn {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr size_t kSmallestOwnedBytes = size_t{16} << 10;

// Large enough for few rounds of waiting, small enough to keep the chunks under way in the cache.
size_t owned_bytes(int members) {
  return std::max(kChunkBytes / static_cast<size_t>(members) / 64 * 64, kSmallestOwnedBytes);
}

}  // namespace

SharedWindow::SharedWindow(std::shared_ptr<NodeMemory> memory, const Group& group, uint32_t channel)
    : memory_(std::move(memory)),
      ranks_(group.ranks),
      channel_(channel),
      owned_bytes_(axonn::owned_bytes(group.size())),
      members_(ranks_.size(), nullptr) {
  const size_t bytes = sizeof(Counters) + kDepth * (chunk_bytes() + owned_bytes_);
  own_ = memory_->own_window(channel_, bytes);
  members_[static_cast<size_t>(group.index)] = own_;
}

bool SharedWindow::attached() {
  bool all = true;
  for (size_t member = 0; member < members_.size(); ++member) {
    if (members_[member] == nullptr) members_[member] = memory_->window(ranks_[member], channel_);
    all = all && members_[member] != nullptr;
  }
  return all;
}

int SharedWindow::missing_member() const {
  const auto missing = std::ranges::find(members_, nullptr);
  return missing == members_.end() ? -1 : static_cast<int>(missing - members_.begin());
}

int SharedWindow::behind(std::atomic<int64_t> Counters::* counter, int64_t chunks) const {
  for (int member = 0; member < static_cast<int>(members_.size()); ++member)
    if ((of(member).*counter).load(std::memory_order_acquire) < chunks) return member;
  return -1;
}

}  // namespace axonn
