#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace axonn::coconet {

// How an executor runs a plan where the schedule leaves it open, as NCCL's protocols and channels
// do in CoCoNet, section 4. All ranks of a group have the same. Threads and segments change no bit.
// Rows do: a product rounds by the rows that are computed together.
struct RunSettings {
  int threads = 0;            // at most, where nothing is communicated; 0: all of the process
  int64_t segment_bytes = 0;  // CollectiveOptions::segment_bytes
  int64_t part_rows = 0;      // rows of an overlapped product's parts, with all columns; 0: parts_of()'s choice
  bool operator==(const RunSettings&) const = default;
};

// "threads=2 segment=32768 rows=128", without what is 0: "" for the defaults.
std::string to_string(const RunSettings& settings);
// Parses a result of to_string(). UserError for any other text.
RunSettings parse_run_settings(std::string_view text);

// Settings that a tuner tries beside the defaults, one axis after the other.
struct RunAxes {
  std::vector<int> threads = {};
  std::vector<int64_t> segment_bytes = {}, part_rows = {};
  bool operator==(const RunAxes&) const = default;
};

}  // namespace axonn::coconet
