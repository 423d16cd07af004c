#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace axonn {

// The place where another process of the node finds a region (NodeMemory). The region is an unnamed
// file that lives as long as a process maps it, so nothing is left behind.
struct RegionAddress {
  int rank = 0;  // rank in the job
  int32_t process = 0;
  int32_t file = -1;
  uint64_t token = 0;      // at the region's end; detects a file of another container
  uint64_t processes = 0;  // the namespace in which `process` is a number
};

// This process's region. Others can open it as long as this object lives.
class OwnRegion {
 public:
  explicit OwnRegion(int rank);
  ~OwnRegion();
  OwnRegion(const OwnRegion&) = delete;
  OwnRegion& operator=(const OwnRegion&) = delete;

  const RegionAddress& address() const { return address_; }
  const std::shared_ptr<std::byte>& region() const { return region_; }

 private:
  RegionAddress address_;
  std::shared_ptr<std::byte> region_;
};

// Another process's region, for reading. BackendError when it cannot be opened.
std::shared_ptr<std::byte> open_region(const RegionAddress& address);

}  // namespace axonn
