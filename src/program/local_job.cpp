#include "program/local_job.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "axonn/comm/launch.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (listener >= 0) close(listener);
  if (!found) throw BackendError("program.local_job", std::string("no free port on loopback: ") + std::strerror(errno));
  return ntohs(address.sin_port);
}

// When a rank has failed, the others notice it through the transport and print their errors. Who
// does not is ended.
constexpr auto kPoll = 20ms, kGrace = 500ms, kPatience = 8000ms;

void send(const std::vector<pid_t>& children, int signal) {
  for (const pid_t child : children) kill(child, signal);
}

// While it lives, signals that end a run in order go to the ranks. They have a process group of
// their own: a Ctrl-C reaches them once, through this process.
class ForwardedSignals {
 public:
  explicit ForwardedSignals(const std::vector<pid_t>& children) : children_(children) {
    for (size_t i = 0; i < kAll.size(); ++i) before_[i] = std::signal(kAll[i], [](int signal) { received = signal; });
  }
  ~ForwardedSignals() {
    for (size_t i = 0; i < kAll.size(); ++i) std::signal(kAll[i], before_[i]);
  }
  ForwardedSignals(const ForwardedSignals&) = delete;
  ForwardedSignals& operator=(const ForwardedSignals&) = delete;

  void pass_on() const {
    if (const int signal = received.exchange(0); signal != 0) send(children_, signal);
  }

 private:
  static constexpr std::array kAll = {SIGINT, SIGTERM, SIGUSR1};
  static inline std::atomic<int> received{0};

  const std::vector<pid_t>& children_;
  std::array<void (*)(int), kAll.size()> before_{};
};

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

pid_t start(int rank, int ranks, int port, const std::string& secret, char** argv) {
  const pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // in case the waiting process is killed
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("AXONN_SECRET", secret);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

int run_local_job(int ranks, char** argv) {
  const int port = free_port();
  const std::string secret = make_secret();
  std::vector<pid_t> children;
  const ForwardedSignals forwarded(children);
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(start(rank, ranks, port, secret, argv));
    if (children.back() < 0) throw BackendError("program.local_job", std::string("fork: ") + std::strerror(errno));
  }
  int worst = 0;
  for (std::chrono::milliseconds since_failure{0}; !children.empty(); since_failure += worst != 0 ? kPoll : 0ms) {
    if (since_failure == kGrace) send(children, SIGTERM);
    if (since_failure == kGrace + kPatience) send(children, SIGKILL);
    forwarded.pass_on();
    int state = 0;
    const pid_t ended = waitpid(-1, &state, WNOHANG);
    if (ended <= 0) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    std::erase(children, ended);
    const int status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (worst == 0) worst = status;
  }
  return worst;
}

}  // namespace axonn
