#pragma once

#include <chrono>
#include <cstdint>
#include <string>

// A line on standard error, if that is a terminal that redraws lines, or as AXONN_PROGRESS says.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted = true);
  ~ProgressLine();  // removes the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_shown() const { return shown_; }
  void show(const std::string& text) const;
  // "0:12 left", when `done` of `all` have taken the time since the line began.
  std::string time_left(int64_t done, int64_t all) const;

 private:
  bool shown_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};
