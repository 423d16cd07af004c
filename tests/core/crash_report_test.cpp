// A child process crashes; its line on the error output and its end are looked at. In this program
// malloc() ends the process while it is forbidden, as inside of a handler.
#include "axonn/core/crash_report.hpp"

#include <csignal>
#include <cstdlib>
#include <unistd.h>

#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
volatile bool malloc_is_forbidden = false;
}

extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* malloc(size_t bytes) {
  if (malloc_is_forbidden) _exit(99);
  return __libc_malloc(bytes);
}

namespace axonn {
namespace {

[[noreturn]] void crash_by(int number) {
  malloc_is_forbidden = true;
  raise(number);
  _exit(0);
}

TEST(CrashReport, SaysWhereTheProcessWas) {
  const auto crash = [](int number) {
    crash::install();
    crash::set_rank(3, 8);
    crash::set_step(12);
    crash::set_collective({.kind = "all-gather", .number = 6, .group = "z", .tag = ""});
    crash::set_collective({.kind = "all-reduce", .number = 7, .group = "x", .tag = "h.3.mlp.up backward"});
    crash_by(number);
  };
  for (const auto& [number, name] :
       {std::pair(SIGSEGV, "SIGSEGV"), {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"}})
    EXPECT_EXIT(crash(number), testing::KilledBySignal(number),
                std::string("\\[fatal\\] rank 3 of 8: ") + name +
                    " ends process [0-9]+ in step 12; its last collective was all-reduce #7 of group 'x', tag "
                    "'h.3.mlp.up backward'\n");
}

TEST(CrashReport, SaysOnlyWhatIsKnown) {
  const auto crash = [] {
    crash::install();
    crash_by(SIGSEGV);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "\\[fatal\\] SIGSEGV ends process [0-9]+\n");
}

TEST(CrashReport, CutsLongNames) {
  const auto crash = [] {
    crash::install();
    crash::set_collective(
        {.kind = "all-reduce", .number = -1, .group = std::string(1000, 'g'), .tag = std::string(1000, 't')});
    crash_by(SIGSEGV);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "all-reduce #-1 of group 'g{31}', tag 't{63}'\n");
}

TEST(CrashReport, AnOverflowOfTheStackIsReportedToo) {
  const auto crash = [] {
    crash::install();
    malloc_is_forbidden = true;
    const auto deeper = [](auto&& self, volatile char* above) -> int {
      volatile char here[4096] = {};
      here[0] = *above;
      return here[0] == 1 ? 0 : self(self, here) + here[0];  // it never is
    };
    volatile char first = 0;
    _exit(deeper(deeper, &first));
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "SIGSEGV ends process");
}

TEST(CrashReport, AHandlerOfTheProgramStays) {
  const auto crash = [] {
    signal(SIGFPE, [](int) { _exit(7); });
    crash::install();
    crash_by(SIGFPE);
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace axonn

#endif
