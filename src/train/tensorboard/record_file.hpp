#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace axonn {

// A file of TensorFlow's records (TFRecord), each with its length and two checksums. Records are
// kept in memory, and written together every few seconds.
class RecordFile {
 public:
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kBetweenWrites{5};
  static constexpr size_t kMostKept = size_t{1} << 20;  // bytes; more are written at once

  // A new file. Nothing is written yet.
  explicit RecordFile(std::filesystem::path path, Seconds between_writes = kBetweenWrites);
  ~RecordFile();  // writes what is kept; it logs what keeps it from that
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Both throw a BackendError when the system cannot write.
  void add(std::string_view record);
  void flush();

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  Seconds between_writes_;
  std::ofstream out_;
  std::string kept_;
  Clock::time_point written_ = Clock::now();
};

}  // namespace axonn
