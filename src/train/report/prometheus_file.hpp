#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "axonn/core/json/json_numbers.hpp"

namespace axonn {

// Numbers in the text format of Prometheus: axonn_KEY{run="..."} VALUE, with underscores for what a
// name must not have. `running` is one of them.
std::string prometheus_text(const NamedNumbers& numbers, const std::string& run, bool running);

// A file with the newest metrics of a run, for a collector of Prometheus. It is replaced as a whole
// every few seconds. If that fails later than in the constructor, it is logged once, and the run
// goes on. Only for rank 0.
class PrometheusFile {
 public:
  static constexpr std::chrono::seconds kBetweenWrites{5};

  // `run`: its directory, as a label. BackendError if the file cannot be written.
  PrometheusFile(std::filesystem::path path, std::string run);
  void update(NamedNumbers metrics);
  void end() noexcept;  // the run is not running any more

 private:
  using Clock = std::chrono::steady_clock;

  void write(bool running);
  void try_to_write(bool running) noexcept;

  std::filesystem::path path_;
  std::string run_;
  NamedNumbers metrics_;
  Clock::time_point next_;
  bool failed_ = false;
};

}  // namespace axonn
