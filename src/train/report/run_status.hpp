#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace axonn {

// Writes status.json of a run's directory (docs/running.md lists its keys), by rename: a reader
// sees a whole file at any time. Only for rank 0.
class RunStatus {
 public:
  explicit RunStatus(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Steps done. Writes at the first call, and when the file is older than kSeconds.
  void running(int64_t step);
  void done(int64_t step) { write("done", step, ""); }
  void stopped(int64_t step, const std::string& reason) { write("stopped", step, reason); }
  // For the way out after an error: it throws nothing, and logs what keeps it from writing.
  void failed(int64_t step, const std::string& reason) noexcept;

 private:
  static constexpr std::chrono::seconds kSeconds{10};

  void write(const char* state, int64_t step, const std::string& reason);

  std::filesystem::path directory_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace axonn
