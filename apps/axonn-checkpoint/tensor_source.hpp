#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

// A tensor of a file or a checkpoint, which is read when it is wanted.
struct SourceTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> read;  // whole, on the CPU

  int64_t numel() const;
  int64_t bytes() const;
  std::string shape_text() const;  // "[768, 3072]"
};

// Whether the path is a safetensors file or the index of several, not a checkpoint.
bool is_state_dict(const std::filesystem::path& path);

// All tensors of a safetensors file, of an index, or of a checkpoint (a run's directory: its
// newest). Those of a checkpoint's group lose the group in their names: "weights/head.bias" is
// "head.bias". Without a group, a checkpoint's names are as stored. UserError for a group that is
// not there, and for a group of a file.
std::vector<SourceTensor> tensors_of(const std::filesystem::path& path, const std::string& group);
