#include "program/local_job.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

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

// 128 random bits, so that no other user of this machine can join the job.
std::string make_secret() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 16> bits{};
  if (getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    throw BackendError("program.local_job", std::string("getrandom: ") + std::strerror(errno));
  }
  std::string text;
  for (const unsigned char byte : bits) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

pid_t start(int rank, int ranks, int port, const std::string& secret, char** argv) {
  const pid_t child = fork();
  if (child != 0) return child;
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
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(start(rank, ranks, port, secret, argv));
    if (children.back() < 0) throw BackendError("program.local_job", std::string("fork: ") + std::strerror(errno));
  }
  int worst = 0;
  for (size_t left = children.size(); left > 0; --left) {
    int state = 0;
    const pid_t ended = wait(&state);
    const int status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (status != 0 && worst == 0) {
      worst = status;
      usleep(500'000);  // the other ranks notice it through the transport and print their errors
      for (const pid_t child : children)
        if (child != ended) kill(child, SIGTERM);
    }
  }
  return worst;
}

}  // namespace axonn
