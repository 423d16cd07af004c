#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

namespace safetensors {
class StateDictReader;
}

// The tensors of a state dict: a safetensors file, an index of several, or a plain dictionary of
// torch.save, which is held in memory whole. UserError as from StateDictReader, if a value of the
// dictionary is no tensor, and if two tensors get one name.
class TensorFile {
 public:
  struct Entry {
    std::vector<int64_t> shape;
    at::ScalarType dtype = at::kFloat;
    std::function<at::Tensor(Range)> read;  // elements of the flattened tensor
  };
  // rename: the new name of a tensor, "" leaves it out; empty: all keep theirs.
  TensorFile(const std::filesystem::path& path, const std::function<std::string(const std::string&)>& rename);
  ~TensorFile();

  const std::map<std::string, Entry>& entries() const { return entries_; }  // by name

 private:
  std::unique_ptr<safetensors::StateDictReader> files_;  // null for a dictionary of torch.save
  std::map<std::string, Entry> entries_;
};

}  // namespace axonn
