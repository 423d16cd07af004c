#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/network/decoder/decoder_shape.hpp"

namespace axonn {

struct WriteGgufOptions {
  at::ScalarType dtype = at::kFloat;  // type of the matrices: fp32, bf16 or fp16; vectors are fp32
  std::filesystem::path original;     // a folder with the tokenizer's files, and config.json or not
  bool overwrite = false;             // replaces a file that exists
};

// Writes one GGUF file that llama.cpp runs: a network of the architecture llama, qwen2, qwen3 or
// gpt2, and its tokenizer. `read` returns a tensor by our name (axonn/model/decoder/model.hpp),
// whole and on the CPU; it is called for one after the other, and one is in memory. The bytes
// depend on values and options only. The file appears when it is complete. By one process. Returns
// the bytes of the weights. UserError for a network of no family (write_config()), for what
// llama.cpp's architecture lacks, such as a window shorter than the texts, for a folder without a
// tokenizer, or with one that llama.cpp does not have, if the file exists, or if a number is too
// large for `dtype`; BackendError if the system cannot write.
int64_t write_gguf(const std::filesystem::path& file, const DecoderShape& shape,
                   const std::function<at::Tensor(const std::string&)>& read, const WriteGgufOptions& options);

}  // namespace axonn
