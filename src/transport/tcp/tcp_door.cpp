#include "transport/tcp/tcp_door.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#define XXH_INLINE_ALL  // all of it is in its header
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
  if (pending_.size() >= kMostSilent) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(pending_.front().since + kPatienceWithSilence - now);
    if (rest.count() > 0) return stop_listening(rest), false;
  }
  listen_again();
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

// Connections that are not accepted would keep fd() readable, and whoever watches it busy.
void Door::stop_listening(std::chrono::milliseconds time) {
  if (!timer_.open()) {
    timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!timer_.open()) return;  // busy, then
    watch(epoll_, timer_.get(), EPOLLIN, 0);
  }
  const itimerspec once{.it_interval = {},
                        .it_value = {.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000}};
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);  // takes back what has expired
  if (listens_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listens_ = false;
}

void Door::listen_again() {
  if (listens_) return;
  const itimerspec never{};
  ::timerfd_settime(timer_.get(), 0, &never, nullptr);
  watch(epoll_, listener_.get(), EPOLLIN, 0);
  listens_ = true;
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
