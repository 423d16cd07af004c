#include "comm/transport/tcp_door.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

#include <xxhash.h>

#include "axonn/core/log.hpp"

namespace axonn::tcp {
namespace {

constexpr size_t kMostSilent = 16;
constexpr std::chrono::milliseconds kPatienceWithSilence{200};  // a rank sends its greeting at once

// Takes the same time wherever the two differ.
bool equal(const Secret& a, const Secret& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Secret secret_of(std::string_view text) {
  XXH128_canonical_t bits;
  XXH128_canonicalFromHash(&bits, XXH3_128bits(text.data(), text.size()));
  return std::to_array(bits.digest);
}

Door::Door(Descriptor listener, const Secret& secret)
    : listener_(std::move(listener)), secret_(secret), epoll_(make_epoll()) {
  watch(epoll_, listener_.get(), EPOLLIN, 0);
}

std::optional<Arrival> Door::next() {
  do {
    for (size_t i = 0; i < pending_.size();) {
      Pending& pending = pending_[i];
      const bool keep = read(pending);
      if (keep && pending.arrived < sizeof(Greeting)) {
        ++i;
        continue;
      }
      Arrival arrival{std::move(pending.socket), pending.greeting};
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
      if (!keep) continue;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, arrival.socket.get(), nullptr);
      return arrival;
    }
  } while (accept_one());
  return std::nullopt;
}

bool Door::accept_one() {
  const auto now = std::chrono::steady_clock::now();
  if (pending_.size() >= kMostSilent && now - pending_.front().since < kPatienceWithSilence) return false;
  Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) {
    const bool no_room = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    if (no_room) fail_to_open("accept", errno);
    return errno == ECONNABORTED || errno == EINTR;
  }
  if (pending_.size() >= kMostSilent) {
    log::debug("a connection from ", peer_address(pending_.front().socket.get()).host(),
               " was closed: it said nothing");
    pending_.pop_front();
  }
  watch(epoll_, socket.get(), EPOLLIN, 0);
  pending_.push_back({.socket = std::move(socket), .since = now, .greeting = {}});
  return true;
}

bool Door::read(Pending& pending) {
  auto* bytes = reinterpret_cast<char*>(&pending.greeting);
  const ssize_t got =
      ::recv(pending.socket.get(), bytes + pending.arrived, sizeof(Greeting) - pending.arrived, MSG_DONTWAIT);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  pending.arrived += static_cast<size_t>(got);
  return pending.arrived < sizeof(Greeting) || is_ours(pending);
}

bool Door::is_ours(const Pending& pending) const {
  const Greeting& greeting = pending.greeting;
  const int fd = pending.socket.get();
  const bool speaks_ours = greeting.magic == Greeting{}.magic;
  if (speaks_ours && equal(greeting.secret, secret_)) return true;
  log::warn("a connection from ", peer_address(fd).host(), " was refused: ",
            speaks_ours ? "it has another AXONN_SECRET than this job" : "it does not come from a rank of a job");
  const Answer answer{.verdict = Verdict::other_secret};
  if (speaks_ours && greeting.purpose == Purpose::join) {
    ::send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return false;
}

}  // namespace axonn::tcp
