#include "axonn/core/standard_streams.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"

namespace axonn {

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. A standard output that cannot be written fails at once.
    (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void outlive_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

bool output_failed() {
  if (std::ferror(stdout) == 0) return false;
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) return true;
  pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLNVAL)) != 0;
}

bool redraws_lines(int descriptor) {
  const auto wanted = env::get("AXONN_PROGRESS");
  if (!wanted) return ::isatty(descriptor) == 1 && env::get("TERM") != "dumb";
  AXONN_CHECK(*wanted == "bar" || *wanted == "lines", "core.standard_streams",
              "AXONN_PROGRESS must be bar or lines, got '", *wanted, "'");
  return *wanted == "bar";
}

void finish_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  if (flushed && std::ferror(stdout) == 0) return;
  throw UserError(
      "core.standard_streams",
      detail::concatenate("the standard output cannot be written",
                          flushed ? "" : detail::concatenate(" (", std::strerror(reason), ")"),
                          ", and a part of it is lost; write it to a place that has room, or to /dev/null"));
}

}  // namespace axonn
