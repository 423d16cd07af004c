#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/grid/shard_spec.hpp"
#include "axonn/network/decoder/decoder_shape.hpp"

// The names of a decoder's tensors in Hugging Face's files. Ours are GPT-2's, for every family
// (axonn/model/decoder/model.hpp).
namespace axonn {

// A tensor of a file: some rows (dim 0) of one of ours.
struct FilePart {
  std::string name;
  std::vector<int64_t> shape;  // in the file
  Range rows;                  // the place in our tensor
  bool transposed = false;     // it lies as (in, out) in the file: GPT-2's Conv1D
};

struct DecoderTensor {
  std::string name;            // ours: "h.0.attn.qkv.weight"
  std::vector<int64_t> shape;  // ours, (out, in)
  std::vector<FilePart> parts;
};

// All tensors of a network of this family, in the order of the network. A tied head has none.
std::vector<DecoderTensor> tensor_names(const DecoderShape& shape, std::string_view model_type);

// The name in tensor_names() of a file's tensor: files of a bare network lack the prefix
// ("wte.weight" for "transformer.wte.weight"). Empty: a mask or table of angles that older files
// hold, and that follows from the configuration.
std::string usual_name(const std::string& in_file, std::string_view model_type);

}  // namespace axonn
