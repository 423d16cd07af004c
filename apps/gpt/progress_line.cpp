#include "progress_line.hpp"

#include <cstdio>

#include <unistd.h>

#include <axonn/core/standard_streams.hpp>
#include <axonn/core/text.hpp>

// A wrong variable is an error of every rank, also of those that show no line.
ProgressLine::ProgressLine(bool wanted) : shown_(axonn::redraws_lines(STDERR_FILENO) && wanted) {}

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
