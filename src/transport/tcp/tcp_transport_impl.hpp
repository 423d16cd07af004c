#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tcp/tcp_mesh.hpp"
#include "transport/tcp/tcp_peer.hpp"
#include "transport/transport.hpp"

namespace axonn::tcp {

// The transport of tcp_transport.hpp.
class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpMesh mesh);
  ~TcpTransport() override { mesh_.notices.leave(rank_); }

  std::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override;
  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override;
  bool test(Ticket ticket) override;
  std::optional<Letter> letter() override;
  void check_others() override { progress(); }
  void abandon(const std::string&) noexcept override { give_up(0); }
  void abort(int exit_status) noexcept override;

 private:
  Peer& peer(int rank);
  static uint64_t tag(const Peer& peer, const Link& link);

  template <typename Call>
  auto or_fail_job(Call call);
  void admit();
  void connect(Peer& peer);
  void progress();
  void write(Peer& peer);
  void read(Peer& peer, Link& link);
  void end(Peer& peer, Link& link, const std::string& why);
  void read_notices();
  void fail_if_needed(const Peer& peer);
  [[noreturn]] void fail_job(const std::string& why);
  std::string outstanding_with(const Peer& peer) const;
  void give_up(int exit_status) noexcept;

  TcpMesh mesh_;
  const int rank_;
  Descriptor epoll_;
  Tickets tickets_;
  std::deque<Letter> letters_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, made when they are needed
  std::string failure_;                       // thrown by every test() once set
};

}  // namespace axonn::tcp
