#include "data/images/jpeg_holes.hpp"

#include <algorithm>

namespace axonn {
namespace {

constexpr unsigned char kMark = 0xFF, kStuffed = 0x00, kBegin = 0xD8, kEnd = 0xD9, kScan = 0xDA;

bool is_restart(unsigned char marker) { return marker >= 0xD0 && marker <= 0xD7; }

}  // namespace

// See ITU T.81, B.1: a marker is 0xFF and a byte; most begin a segment, whose first two bytes are
// its length. Compressed pixels follow the segment of SOS, up to the next marker.
int64_t longest_zero_run(std::string_view jpeg) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(jpeg[at]); };
  int64_t longest = 0, run = 0;
  bool in_scan = false;
  for (size_t at = 0; at + 1 < jpeg.size();) {
    const unsigned char next = byte(at + 1);
    const bool marker = byte(at) == kMark && next != kStuffed && next != kMark && !is_restart(next);
    if (!marker) {
      run = in_scan && byte(at) == 0 ? run + 1 : 0;
      longest = std::max(longest, run);
      ++at;
      continue;
    }
    if (next == kEnd) break;
    at += 2;
    in_scan = next == kScan;
    if (next != kBegin && at + 1 < jpeg.size()) at += size_t{byte(at)} << 8 | byte(at + 1);
    run = 0;
  }
  return longest;
}

}  // namespace axonn
