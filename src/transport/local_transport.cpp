#include "transport/local_transport.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "transport/node/node_memory.hpp"

namespace axonn {

class LocalHub {
 public:
  // A message that its sender still holds, unless it gave up. The receiver sets `taken` after its
  // copy. Data are read and withdrawn under the mailbox's lock.
  struct Message {
    const void* data = nullptr;
    size_t bytes = 0;
    std::shared_ptr<std::atomic<bool>> taken;
    bool withdrawn = false;
  };

  // Messages from one rank to another on one channel. The n-th receive takes the n-th message,
  // whichever is tested first.
  struct Lane {
    std::deque<Message> messages;
    uint64_t first = 0;  // number of messages.front()
  };

  struct Mailbox {
    std::mutex mutex;
    std::map<std::pair<int, uint32_t>, Lane> lanes;
  };

  explicit LocalHub(int ranks) : mailboxes(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) regions.push_back(map_region());
  }

  std::vector<Mailbox> mailboxes;                   // by receiver
  std::vector<std::shared_ptr<std::byte>> regions;  // by rank
  std::atomic<int> lost_rank{-1};                   // a rank that gave up
  std::string why;                                  // it did; set before lost_rank
  std::mutex why_mutex;
};

namespace {

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~LocalTransport() override { withdraw(); }

  std::string_view name() const override { return "local"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(hub_->mailboxes.size()); }

  std::shared_ptr<NodeMemory> node_memory() const override {
    std::vector<NodeMemory::Member> members;
    for (int rank = 0; rank < ranks(); ++rank)
      members.push_back({rank, hub_->regions[static_cast<size_t>(rank)].get()});
    return std::make_shared<NodeMemory>(rank_, std::move(members), hub_);
  }

  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override {
    auto taken = std::make_shared<std::atomic<bool>>(false);
    auto& mailbox = hub_->mailboxes.at(static_cast<size_t>(peer));
    {
      const std::lock_guard lock(mailbox.mutex);
      mailbox.lanes[{rank_, channel}].messages.push_back({data, bytes, taken});
    }
    return add({.taken = std::move(taken)});
  }

  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override {
    return add(
        {.peer = peer, .channel = channel, .data = data, .bytes = bytes, .number = next_receive_[{peer, channel}]++});
  }

  bool test(Ticket ticket) override {
    Outstanding& outstanding = outstanding_.at(ticket);
    if (!(outstanding.taken ? outstanding.taken->load(std::memory_order_acquire) : take(outstanding))) return false;
    outstanding_.erase(ticket);
    return true;
  }

  std::optional<Letter> letter() override {
    auto& mailbox = hub_->mailboxes[static_cast<size_t>(rank_)];
    const std::lock_guard lock(mailbox.mutex);
    for (int peer = 0; peer < ranks(); ++peer) {
      const auto found = mailbox.lanes.find({peer, kLetters});
      if (found == mailbox.lanes.end()) continue;
      const LocalHub::Lane& lane = found->second;
      const uint64_t next = next_receive_[{peer, kLetters}] - lane.first;
      if (next < lane.messages.size()) return Letter{peer, lane.messages[next].bytes};
    }
    return std::nullopt;
  }

  void check_others() override {
    const int lost = hub_->lost_rank;
    if (lost >= 0)
      throw BackendError("comm.local", detail::concatenate("rank ", lost, " gave up on the job: ", hub_->why));
  }

  void abort(int exit_status) noexcept override { std::_Exit(exit_status); }
  void abandon(const std::string& why) noexcept override {
    {
      const std::lock_guard lock(hub_->why_mutex);
      if (hub_->lost_rank < 0) {
        hub_->why = why;
        hub_->lost_rank = rank_;
      }
    }
    withdraw();
  }

 private:
  struct Outstanding {
    std::shared_ptr<std::atomic<bool>> taken;  // set for a send; the other fields describe a receive
    int peer = 0;
    uint32_t channel = 0;
    void* data = nullptr;
    size_t bytes = 0;
    uint64_t number = 0;
  };

  Ticket add(Outstanding outstanding) {
    outstanding_.emplace(++last_ticket_, std::move(outstanding));
    return last_ticket_;
  }

  bool take(const Outstanding& receive) {
    LocalHub::Message message;
    auto& mailbox = hub_->mailboxes[static_cast<size_t>(rank_)];
    const std::lock_guard lock(mailbox.mutex);
    auto& lane = mailbox.lanes[{receive.peer, receive.channel}];
    if (receive.number - lane.first >= lane.messages.size()) return false;
    message = std::exchange(lane.messages[receive.number - lane.first], {});
    while (!lane.messages.empty() && !lane.messages.front().taken) {
      lane.messages.pop_front();
      ++lane.first;
    }
    if (message.withdrawn) {
      check_others();
      throw BackendError("comm.local",
                         detail::concatenate("rank ", receive.peer,
                                             " gave up on the job before its message was taken; see its own error"));
    }
    if (message.bytes != receive.bytes)
      throw BackendError("comm.local", other_size(receive.peer, message.bytes, rank_, receive.bytes));
    if (message.bytes > 0) std::memcpy(receive.data, message.data, message.bytes);
    message.taken->store(true, std::memory_order_release);
    drop_if_idle(mailbox, {receive.peer, receive.channel});
    return true;
  }

  // Channels are many: each call has labels of its own.
  void drop_if_idle(LocalHub::Mailbox& mailbox, const std::pair<int, uint32_t>& lane) {
    const auto found = mailbox.lanes.find(lane);
    if (!found->second.messages.empty() || found->second.first != next_receive_[lane]) return;
    mailbox.lanes.erase(found);
    next_receive_.erase(lane);
  }

  // Nobody may read this rank's buffers any more.
  void withdraw() noexcept {
    for (auto& mailbox : hub_->mailboxes) {
      const std::lock_guard lock(mailbox.mutex);
      for (auto& [from, lane] : mailbox.lanes)
        if (from.first == rank_)
          for (LocalHub::Message& message : lane.messages) message.withdrawn = true;
    }
  }

  std::shared_ptr<LocalHub> hub_;
  const int rank_;
  Ticket last_ticket_ = 0;
  std::unordered_map<Ticket, Outstanding> outstanding_;
  std::map<std::pair<int, uint32_t>, uint64_t> next_receive_;
};

}  // namespace

std::shared_ptr<LocalHub> make_local_hub(int ranks) { return std::make_shared<LocalHub>(ranks); }

std::unique_ptr<Transport> make_local_transport(std::shared_ptr<LocalHub> hub, int rank) {
  return std::make_unique<LocalTransport>(std::move(hub), rank);
}

}  // namespace axonn
