#include "echo_transport.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <unordered_map>

namespace axonn::bench {
namespace {

class EchoTransport final : public Transport {
 public:
  EchoTransport(int rank, int ranks, uint32_t largest_channel, Sent& sent)
      : rank_(rank), ranks_(ranks), largest_channel_(largest_channel), sent_(sent) {}

  std::string_view name() const override { return "echo"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  uint32_t largest_channel() const override { return largest_channel_; }

  Ticket send(int, uint32_t channel, const void* data, size_t bytes) override {
    ++sent_.messages;
    sent_.bytes += static_cast<int64_t>(bytes);
    const auto posted = waiting_.find(channel);
    if (posted == waiting_.end()) return ++last_ticket_;
    const auto place = std::ranges::find(posted->second, bytes, &Receive::bytes);
    if (place != posted->second.end()) {
      std::memcpy(place->data, data, bytes);
      posted->second.erase(place);
    }
    return ++last_ticket_;
  }

  Ticket receive(int, uint32_t channel, void* data, size_t bytes) override {
    if (bytes > 0) {
      std::memset(data, 0, bytes);
      waiting_[channel].push_back({data, bytes, ++last_ticket_});
      channel_of_[last_ticket_] = channel;
      return last_ticket_;
    }
    return ++last_ticket_;
  }

  bool test(Ticket ticket) override {
    if (const auto found = channel_of_.find(ticket); found != channel_of_.end()) {
      auto& waiting = waiting_[found->second];
      waiting.remove_if([ticket](const Receive& receive) { return receive.ticket == ticket; });
      if (waiting.empty()) waiting_.erase(found->second);
      channel_of_.erase(found);
    }
    return true;
  }

  std::optional<Letter> letter() override { return std::nullopt; }
  void abort(int exit_status) noexcept override { std::_Exit(exit_status); }

 private:
  struct Receive {
    void* data;
    size_t bytes;
    Ticket ticket;
  };

  const int rank_, ranks_;
  const uint32_t largest_channel_;
  Sent& sent_;
  Ticket last_ticket_ = 0;
  std::unordered_map<uint32_t, std::list<Receive>> waiting_;  // posted, by channel
  std::unordered_map<Ticket, uint32_t> channel_of_;
};

}  // namespace

std::unique_ptr<Transport> make_echo_transport(int rank, int ranks, uint32_t largest_channel, Sent& sent) {
  return std::make_unique<EchoTransport>(rank, ranks, largest_channel, sent);
}

}  // namespace axonn::bench
