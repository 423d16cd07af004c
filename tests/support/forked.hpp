#pragma once

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

// Work in processes of their own, whose system calls, memory and seconds are counted.
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

// The result of `work` in a forked process, which must not leave by an exception.
inline bool succeeds(const std::function<bool()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

inline int64_t status_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t value = 0;
  while (status >> word)
    if (word == name && status >> value) return value * 1024;
  return -1;
}

struct Costs {
  bool succeeded = false;
  int64_t memory = 0;  // bytes, at most, above what it began with
  double cpu_seconds = 0;
};

inline Costs costs_of(const std::function<bool()>& work) {
  void* const shared = ::mmap(nullptr, sizeof(Costs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const costs = new (shared) Costs;
  ::malloc_trim(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int64_t before = status_bytes("VmRSS:");
    const std::clock_t begin = std::clock();
    costs->succeeded = succeeds(work);
    costs->cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    costs->memory = status_bytes("VmHWM:") - before;
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const Costs result = *costs;
  ::munmap(shared, sizeof(Costs));
  return result;
}

// Counts the system calls of a process that runs `work` in its first thread, whose first or second
// argument is a path that begins so. Nothing where this machine does not let a process trace its
// child, -1 if the process fails.
inline std::optional<int> calls_on(const std::vector<std::string>& starts, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNoTracing);
    ::kill(::getpid(), SIGSTOP);
    ::_exit(succeeds(work) ? 0 : 1);
  }
  const auto counts = [&](unsigned long long argument) {
    return std::ranges::any_of(starts, [&](const auto& start) { return begins_with(child, argument, start); });
  };
  int status = 0, calls = 0;
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD);
  while (WIFSTOPPED(status)) {
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) > 0 && call.op == PTRACE_SYSCALL_INFO_ENTRY)
      calls += counts(call.entry.args[0]) || counts(call.entry.args[1]);
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTracing) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? calls : -1;
}

}  // namespace axonn::test
