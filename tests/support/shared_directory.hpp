#pragma once

#include <filesystem>
#include <string>

#include <ATen/ops/full.h>
#include <unistd.h>

#include "axonn/comm/communicator.hpp"
#include "support/rank_test.hpp"

namespace axonn::test {

// A directory of the whole job, which does not exist yet. Every rank makes one; rank 0 removes it.
class SharedDirectory {
 public:
  SharedDirectory() : everyone_(test_environment().world()) {
    const at::Tensor number = at::full({1}, ::getpid(), at::kLong);
    everyone_.broadcast(number, 0).wait();
    path_ = std::filesystem::temp_directory_path() / ("axonn-shared-" + std::to_string(number.item<int64_t>()));
  }
  ~SharedDirectory() {
    everyone_.barrier().wait();
    if (everyone_.rank() == 0) std::filesystem::remove_all(path_);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  void barrier() const { everyone_.barrier().wait(); }

 private:
  Communicator& everyone_;
  std::filesystem::path path_;
};

}  // namespace axonn::test
