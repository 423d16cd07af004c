#include "transport/tcp/tcp_inbox.hpp"

#include <algorithm>
#include <utility>

#include "transport/tcp/tcp_socket.hpp"

namespace axonn::tcp {

void Inbox::receive(uint32_t channel, std::byte* data, size_t bytes, uint32_t slot) {
  const Posted wanted{data, bytes, slot};
  auto& [posted, unexpected] = channel_of(channel);
  if (!unexpected.empty()) {
    check_size(bytes, unexpected.front().bytes);
    std::copy_n(unexpected.front().data.get(), bytes, data);
    unexpected.pop_front();
    unexpected_bytes_ -= kMessageBytes + bytes;
    tickets_.finish(slot);
    drop_if_idle(channel);
    return;
  }
  ++posted_;
  const auto half_here = std::ranges::find_if(incoming_, [&](const Incoming& incoming) {
    return incoming.in_body() && incoming.buffer.data != nullptr && incoming.header.channel == channel;
  });
  if (half_here != incoming_.end()) {
    take_over(*half_here, wanted);
    drop_if_idle(channel);
  } else {
    posted.push_back(wanted);
  }
}

// A message that is arriving in a buffer continues in its receiver's memory.
void Inbox::take_over(Incoming& incoming, const Posted& posted) {
  check_size(posted.bytes, incoming.header.bytes);
  std::copy_n(incoming.buffer.data.get(), incoming.arrived, posted.data);
  unexpected_bytes_ -= kMessageBytes + incoming.buffer.bytes;
  incoming.buffer = {};
  incoming.target = posted.data;
  incoming.slot = posted.slot;
}

std::span<std::byte> Inbox::room(size_t connection) {
  Incoming& incoming = incoming_[connection];
  if (incoming.in_body()) return {incoming.target + incoming.arrived, incoming.header.bytes - incoming.arrived};
  return std::as_writable_bytes(std::span(&incoming.header, 1)).subspan(incoming.header_arrived);
}

void Inbox::added(size_t connection, size_t bytes) {
  Incoming& incoming = incoming_[connection];
  if (incoming.in_body()) {
    incoming.arrived += bytes;
  } else {
    incoming.header_arrived += bytes;
    if (incoming.in_body()) start(incoming);
  }
  if (incoming.in_body() && incoming.arrived == incoming.header.bytes) finish(incoming);
}

void Inbox::restart(size_t connection) {
  if (incoming_[connection].header_arrived > 0) {
    fail(owner_.peer_name, " has connected again, and its last connection had ended within a message",
         "; use a network without devices that end connections");
  }
}

void Inbox::start(Incoming& incoming) {
  const Header& header = incoming.header;
  if (header.mark != Header::kMark) {
    fail("the connection with ", owner_.peer_name, " carries bytes that no rank of this job sent",
         "; use a network without devices that change data");
  }
  auto& posted = channel_of(header.channel).posted;
  if (!posted.empty()) {
    check_size(posted.front().bytes, header.bytes);
    incoming.target = posted.front().data;
    incoming.slot = posted.front().slot;
    posted.pop_front();
    drop_if_idle(header.channel);
    return;
  }
  const size_t left = owner_.most_unexpected_bytes - unexpected_bytes_;
  if (left < kMessageBytes || header.bytes > left - kMessageBytes) {
    fail(owner_.peer_name, " has sent messages that take ", unexpected_bytes_, " bytes and that rank ", owner_.rank,
         " does not receive, and now one of ", header.bytes, "; a rank buffers at most ", owner_.most_unexpected_bytes,
         " of another: let the ranks wait for each other");
  }
  unexpected_bytes_ += kMessageBytes + header.bytes;
  incoming.buffer = {std::make_unique_for_overwrite<std::byte[]>(header.bytes), header.bytes};
  incoming.target = incoming.buffer.data.get();
}

Inbox::Channel& Inbox::channel_of(uint32_t number) {
  if (const auto found = channels_.find(number); found != channels_.end()) return found->second;
  if (idle_.empty()) return channels_[number];
  Channels::node_type node = std::move(idle_.back());
  idle_.pop_back();
  node.key() = number;
  return channels_.insert(std::move(node)).position->second;
}

// Channels are many, as each call has labels of its own. Their memory is reused.
void Inbox::drop_if_idle(uint32_t number) {
  const auto found = channels_.find(number);
  if (found->second.posted.empty() && found->second.unexpected.empty()) idle_.push_back(channels_.extract(found));
}

void Inbox::check_size(size_t expected, size_t sent) const {
  if (expected != sent) throw BackendError(kWhere, other_size(owner_.peer, sent, owner_.rank, expected));
}

void Inbox::finish(Incoming& incoming) {
  if (incoming.buffer.data != nullptr) {
    if (incoming.header.channel == Transport::kLetters) letters_.push_back({owner_.peer, incoming.header.bytes});
    channel_of(incoming.header.channel).unexpected.push_back(std::move(incoming.buffer));
  } else {
    tickets_.finish(incoming.slot);
    --posted_;
  }
  incoming = {};
}

void Inbox::put(uint32_t channel, const std::byte* data, size_t bytes) {
  Incoming whole{.header = {.bytes = bytes, .channel = channel}, .header_arrived = sizeof(Header), .buffer = {}};
  start(whole);
  std::copy_n(data, bytes, whole.target);
  finish(whole);
}

}  // namespace axonn::tcp
