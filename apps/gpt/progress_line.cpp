#include "progress_line.hpp"

#include <cstdio>

#include <unistd.h>

#include <axonn/core/env.hpp>
#include <axonn/core/text.hpp>

namespace {

bool redraws() {
  const auto wanted = axonn::env::get("AXONN_PROGRESS");
  return wanted ? *wanted == "bar" : ::isatty(STDERR_FILENO) == 1;
}

}  // namespace

ProgressLine::ProgressLine(bool wanted) : shown_(wanted && redraws()) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(const std::string& text) const {
  if (!shown_) return;
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  std::fflush(stderr);
}

std::string ProgressLine::time_left(int64_t done, int64_t all) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const double share = static_cast<double>(all - done) / static_cast<double>(done);
  return axonn::duration_text(elapsed.count() * share) + " left";
}
