#include "transport/startup/meeting_place.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kFirstLine = "axonn job 1";

class AtAddress final : public MeetingPlace {
 public:
  AtAddress(MeetingPoint point, bool every_interface) : point_(std::move(point)), every_interface_(every_interface) {
    AXONN_CHECK(point_.port > 0 && point_.port < 65536, "comm.tcp", "need a port from 1 to 65535, got ", point_.port,
                " (MASTER_PORT)");
  }
  MeetingPoint wanted() const override {
    return {every_interface_ ? std::vector<std::string>() : point_.hosts, point_.port, point_.secret};
  }
  void publish(int) override {}
  bool may_change() const override { return false; }
  std::optional<MeetingPoint> find() override { return point_; }
  std::string name() const override {
    std::string hosts;
    for (const std::string& host : point_.hosts) hosts += hosts.empty() ? host : " or " + host;
    return detail::concatenate(hosts, " port ", point_.port);
  }
  std::string need() const override { return "need MASTER_ADDR and MASTER_PORT of a running rank 0"; }

 private:
  MeetingPoint point_;
  bool every_interface_;
};

}  // namespace

std::unique_ptr<MeetingPlace> meet_at(std::string host, int port, std::string secret) {
  return std::make_unique<AtAddress>(MeetingPoint{{std::move(host)}, port, std::move(secret)}, false);
}

std::unique_ptr<MeetingPlace> meet_at_one_of(std::vector<std::string> hosts, int port, std::string secret) {
  return std::make_unique<AtAddress>(MeetingPoint{std::move(hosts), port, std::move(secret)}, true);
}

std::string text_of(const MeetingPoint& point) {
  std::ostringstream text;
  text << kFirstLine << "\nport " << point.port << "\nsecret " << point.secret << "\n";
  for (const std::string& host : point.hosts) text << "host " << host << "\n";
  text << "end\n";
  return text.str();
}

namespace {

bool is_whole(const MeetingPoint& point) {
  return point.port > 0 && point.port < 65536 && !point.hosts.empty() &&
         std::ranges::none_of(point.hosts, &std::string::empty);
}

}  // namespace

std::optional<MeetingPoint> parse_meeting_point(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return std::nullopt;
  MeetingPoint point;
  while (std::getline(lines, line)) {
    if (line == "end") return is_whole(point) ? std::optional(point) : std::nullopt;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "port")
      words >> point.port;
    else if (word == "secret")
      words >> point.secret;
    else if (word == "host")
      words >> point.hosts.emplace_back();
  }
  return std::nullopt;
}

std::vector<std::string> hosts_of_this_process() {
  std::vector<std::string> hosts;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') hosts.emplace_back(name.data());
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return hosts;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto size = static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::strchr(text.data(), '%') == nullptr)  // link-local addresses hold only on their link
      hosts.emplace_back(text.data());
  }
  if (hosts.size() <= 1) hosts.emplace_back("127.0.0.1");
  return hosts;
}

}  // namespace axonn
