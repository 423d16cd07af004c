#pragma once

#include <filesystem>
#include <string>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/hugging_face/tensor_names.hpp"

// Small networks as Hugging Face's directories, and what they must compute:
// ../shared/data/hf_oracles.
namespace axonn::test {

inline std::filesystem::path oracle_folder(const std::string& name) {
  return std::filesystem::path(AXONN_HF_ORACLES) / name;
}

class Oracle {
 public:
  explicit Oracle(const std::string& name) : files_(oracle_folder(name) / "expected.safetensors") {}

  at::Tensor operator[](const std::string& name) const {
    const auto& [file, entry] = files_.places().at(name);
    const at::Tensor whole = at::empty(entry->shape, entry->dtype);
    file->read(*entry, {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()});
    return whole;
  }

  // The gradient of one of our tensors, in our shape.
  at::Tensor gradient(const DecoderTensor& tensor) const {
    std::vector<at::Tensor> parts;
    for (const FilePart& part : tensor.parts) {
      const at::Tensor stored = (*this)["grad." + part.name];
      parts.push_back(part.transposed ? stored.t() : stored);
    }
    return at::cat(parts, 0);
  }

 private:
  safetensors::StateDictReader files_;
};

}  // namespace axonn::test
