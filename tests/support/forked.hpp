#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace axonn::test {

inline constexpr int kNoTracing = 77;

// Whether a text at `address` of a stopped process begins so. An address that is none does not.
inline bool begins_with(pid_t process, unsigned long long address, std::string_view start) {
  for (size_t done = 0; done < start.size(); done += sizeof(long)) {
    errno = 0;
    const long word = ::ptrace(PTRACE_PEEKDATA, process, reinterpret_cast<void*>(address + done), nullptr);
    if (errno != 0) return false;
    const std::string_view here(reinterpret_cast<const char*>(&word), sizeof word);
    const auto rest = start.substr(done, sizeof word);
    if (here.substr(0, rest.size()) != rest) return false;
  }
  return true;
}

// What `work` returns in a forked process, which must not leave by an exception.
inline bool succeeds(const std::function<bool()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

// Counts the system calls of a process of one thread that runs `work`, whose first or second argument is a
// path that begins with `place`. Nothing where this machine does not let a process trace its child, -1 if
// the process fails.
inline std::optional<int> calls_on(const std::string& place, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNoTracing);
    ::kill(::getpid(), SIGSTOP);
    ::_exit(succeeds(work) ? 0 : 1);
  }
  int status = 0, calls = 0;
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD);
  while (WIFSTOPPED(status)) {
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) > 0 && call.op == PTRACE_SYSCALL_INFO_ENTRY)
      calls += begins_with(child, call.entry.args[0], place) || begins_with(child, call.entry.args[1], place);
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTracing) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? calls : -1;
}

}  // namespace axonn::test
