#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/hugging_face/tensor_names.hpp"
#include "model/gguf/network_metadata.hpp"

namespace axonn {

// A tensor of the file: some rows of one of ours.
struct GgufTensor {
  std::string name;  // "blk.0.attn_q.weight"
  std::string ours;
  std::vector<int64_t> shape;
  Range rows;
  at::ScalarType dtype = at::kFloat;
  // Heads of queries or keys whose rows are put into the order of neighbours; 0: the order stays.
  int64_t reordered_heads = 0;
};

// In the order of the network. `tensors`: tensor_names() of the family.
std::vector<GgufTensor> gguf_tensors(const GgufNetwork& network, const std::vector<DecoderTensor>& tensors,
                                     at::ScalarType dtype);

// The rows of `whole`, one of our tensors, as the file has them, before they change their type.
at::Tensor values_of(const GgufTensor& tensor, const at::Tensor& whole);

// By how much Llama 3.1's rotations are slower, per pair of a head's features; fp32.
at::Tensor slower_rotations(const DecoderShape& shape);

}  // namespace axonn
