#include "transport/node/node_memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kMostWindows = 4096;

}  // namespace

// Lies at the start of a region. An entry is written before `count` includes it, and never changes.
struct NodeMemory::Directory {
  struct Entry {
    uint64_t offset;
    uint32_t channel;
  };
  std::atomic<uint32_t> count;
  std::array<Entry, kMostWindows> entries;

  const Entry* find(uint32_t channel) const {
    const auto* end = entries.begin() + count.load(std::memory_order_acquire);
    const auto* entry = std::find_if(entries.begin(), end, [&](const Entry& e) { return e.channel == channel; });
    return entry == end ? nullptr : entry;
  }
};

NodeMemory::NodeMemory(int own_rank, std::vector<Member> members, std::shared_ptr<void> mappings)
    : own_rank_(own_rank),
      members_(std::move(members)),
      mappings_(std::move(mappings)),
      used_((sizeof(Directory) + kPage - 1) / kPage * kPage) {}

bool NodeMemory::spans(const Group& group) const {
  return std::ranges::all_of(group.ranks, [&](int rank) { return region(rank) != nullptr; });
}

const std::byte* NodeMemory::region(int rank) const {
  const auto member = std::ranges::find(members_, rank, &Member::rank);
  return member == members_.end() ? nullptr : member->region;
}

std::byte* NodeMemory::own_window(uint32_t channel, size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto* base = const_cast<std::byte*>(region(own_rank_));
  auto* directory = reinterpret_cast<Directory*>(base);
  if (const auto* entry = directory->find(channel)) return base + entry->offset;
  const uint32_t count = directory->count.load(std::memory_order_relaxed);
  AXONN_CHECK(count < kMostWindows && used_ + bytes <= kRegionBytes, "comm.node_memory", "this rank uses ", count,
              " queues of communicators at a time on one node, which fill the memory set aside for them; make fewer "
              "communicators");
  directory->entries[count] = {used_, channel};
  directory->count.store(count + 1, std::memory_order_release);
  std::byte* window = base + used_;
  used_ += (bytes + kPage - 1) / kPage * kPage;
  return window;
}

const std::byte* NodeMemory::window(int rank, uint32_t channel) const {
  const std::byte* base = region(rank);
  const auto* entry = reinterpret_cast<const Directory*>(base)->find(channel);
  return entry == nullptr ? nullptr : base + entry->offset;
}

std::shared_ptr<std::byte> map_region(int file, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE;
  void* region = mmap(nullptr, NodeMemory::kRegionBytes, protection, flags, file, 0);
  if (region == MAP_FAILED)
    throw BackendError("comm.node_memory", detail::concatenate("mmap failed: ", std::strerror(errno)));
  return {static_cast<std::byte*>(region), [](std::byte* mapped) { munmap(mapped, NodeMemory::kRegionBytes); }};
}

}  // namespace axonn
