#include "program/local_job.hpp"

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "core/free_port.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

// When a rank has failed, the others notice it through the transport and print their errors. One
// that does not is ended.
constexpr auto kPoll = 20ms, kGrace = 500ms, kPatience = 8000ms;

void send(const std::vector<pid_t>& children, int signal) {
  for (const pid_t child : children) kill(child, signal);
}

// While it lives, signals that end a run in order go to the ranks, and Ctrl-Z stops them with this
// process. They have process groups of their own: a Ctrl-C reaches them once, through this one.
class ForwardedSignals {
 public:
  explicit ForwardedSignals(const std::vector<pid_t>& children) : children_(children) {
    for (size_t i = 0; i < kAll.size(); ++i) before_[i] = std::signal(kAll[i], [](int signal) { received = signal; });
    if (before_[kHangUp] == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
  }
  ~ForwardedSignals() {
    for (size_t i = 0; i < kAll.size(); ++i) std::signal(kAll[i], before_[i]);
  }
  ForwardedSignals(const ForwardedSignals&) = delete;
  ForwardedSignals& operator=(const ForwardedSignals&) = delete;

  // Returns whether the user wants the job to end.
  bool pass_on() const {
    const int signal = received.exchange(0);
    if (signal == SIGTSTP) {
      send(children_, SIGSTOP);
      raise(SIGSTOP);
      send(children_, SIGCONT);
    } else if (signal != 0) {
      send(children_, signal);
    }
    return signal != 0 && signal != SIGTSTP;
  }

 private:
  static constexpr size_t kHangUp = 0;
  static constexpr std::array kAll = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGTSTP};
  static inline std::atomic<int> received{0};

  const std::vector<pid_t>& children_;
  std::array<void (*)(int), kAll.size()> before_{};
};

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

pid_t start(int rank, int ranks, int port, const std::string& secret, char** argv) {
  const pid_t waiting = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);                // in case the waiting process is killed
  if (getppid() != waiting) _exit(128 + SIGTERM);  // it was, before the line above
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

// How the job has ended.
struct End {
  int status = 0;
  int rank = -1;       // the first with an end other than 0
  int signal = 0;      // that ended it; 0: it ended itself
  bool asked = false;  // a signal of the user came
};

End run_once(int ranks, char** argv) {
  using Clock = std::chrono::steady_clock;
  const int port = free_port();
  const std::string secret = make_secret();
  std::vector<pid_t> children, started;
  const ForwardedSignals forwarded(children);
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(start(rank, ranks, port, secret, argv));
    if (children.back() < 0) throw BackendError("program.local_job", std::string("fork: ") + std::strerror(errno));
  }
  started = children;
  End end;
  Clock::time_point failed;
  int last_signal = 0;  // that the others got after the failure
  while (!children.empty()) {
    end.asked |= forwarded.pass_on();
    const int due = end.status == 0                               ? 0
                    : Clock::now() >= failed + kGrace + kPatience ? SIGKILL
                    : Clock::now() >= failed + kGrace             ? SIGTERM
                                                                  : 0;
    if (due != std::exchange(last_signal, due)) {
      send(children, due);
      send(children, SIGCONT);  // to those that were stopped
    }
    int state = 0;
    const pid_t ended = waitpid(-1, &state, WNOHANG);
    if (ended <= 0) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    std::erase(children, ended);
    const int signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    const int status = signal != 0 ? 128 + signal : WEXITSTATUS(state);
    if (status == 0) continue;
    const bool first = end.status == 0;
    if (first) failed = Clock::now();
    // A rank that dies is the reason; others, seen earlier, may have ended because of it.
    if (first || (signal != 0 && end.signal == 0 && last_signal == 0)) {
      end.rank = static_cast<int>(std::ranges::find(started, ended) - started.begin());
      end.signal = signal;
    }
    if (first) end.status = status;
  }
  return end;
}

}  // namespace

int run_local_job(int ranks, char** argv, const Restarts& restarts) {
  std::string reached = restarts.most > 0 ? restarts.reached() : "";
  bool in_vain = false;  // the last start has reached nothing
  for (int restart = 0;; ++restart) {
    const End end = run_once(ranks, argv);
    if (end.status == 0 || end.asked || restarts.most == 0) return end.status;
    const std::string how = end.signal != 0
                                ? detail::concatenate("died of signal ", end.signal, " (", strsignal(end.signal), ")")
                                : detail::concatenate("ended with status ", end.status);
    if (restart == restarts.most) {
      log::error("rank ", end.rank, " ", how, ": the job has been started again ", restart, " times (--max-restarts)");
      return end.status;
    }
    const bool forward = std::exchange(reached, restarts.reached()) != reached;
    if (!forward && end.signal == 0) return end.status;  // an error, which a rank has printed
    if (!forward && in_vain) {
      log::error("rank ", end.rank, " ", how,
                 " again without a new checkpoint: no restart, as it would end there again");
      return end.status;
    }
    in_vain = !forward;
    log::warn("rank ", end.rank, " ", how, ": restart ", restart + 1, " of ", restarts.most, ", from ",
              reached.empty() ? "the beginning" : reached);
  }
}

}  // namespace axonn
