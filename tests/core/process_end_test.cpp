#include "axonn/core/process_end.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

namespace axonn {
namespace {

std::FILE* file = nullptr;

// The text of a file that a child wrote to, without closing it, and after it a handler of its exit.
std::string written_with(const char* variable) {
  const auto path = std::filesystem::temp_directory_path() / ("axonn-process-end-" + std::to_string(::getpid()));
  EXPECT_EXIT(
      {
        unsetenv("LD_PRELOAD");
        unsetenv("CUDA_INJECTION64_PATH");
        if (variable != nullptr) setenv(variable, "libtool.so", 1);
        file = std::fopen(path.c_str(), "w");
        std::fputs("work", file);
        std::atexit([] { std::fputs(", handler", file); });
        end_process(3);
      },
      testing::ExitedWithCode(3), "");
  std::ifstream input(path);
  const std::string text(std::istreambuf_iterator<char>(input), {});
  std::filesystem::remove(path);
  return text;
}

TEST(EndProcess, WritesWhatIsBufferedAndRunsNoHandler) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer a process ends as usual";
#endif
  EXPECT_EQ(written_with(nullptr), "work");
}

TEST(EndProcess, RunsTheHandlersOfToolsThatWatch) {
  for (const char* variable : {"LD_PRELOAD", "CUDA_INJECTION64_PATH"})
    EXPECT_EQ(written_with(variable), "work, handler") << variable;
}

}  // namespace
}  // namespace axonn
