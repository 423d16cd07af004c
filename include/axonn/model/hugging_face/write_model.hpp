#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/config.hpp"

namespace axonn {

struct WriteModelOptions {
  at::ScalarType dtype = at::kFloat;  // type of the weights: fp32, bf16 or fp16
  // Most bytes of a file of weights, which a larger tensor has to itself; 0: one file.
  int64_t shard_bytes = 0;
  std::filesystem::path original;  // a folder of files that the network came with, or empty
  bool overwrite = false;          // replaces a directory that exists
};

// Writes a directory that transformers 4 and 5 load: config.json, weights with the names of the
// network's family, and of `original` what belongs to the tokenizer and to generation, byte for
// byte. `read` returns a tensor by our name (axonn/model/decoder/model.hpp), whole and on the CPU;
// it is called for one after the other. The bytes depend on values and options only. The directory
// appears when it is complete. By one process. Returns the bytes of the weights. UserError for a
// network of no family (write_config()), if the directory exists, or if a number is too large for
// `dtype`; BackendError if the system cannot write.
int64_t write_model(const std::filesystem::path& directory, const DecoderShape& shape,
                    const std::function<at::Tensor(const std::string&)>& read, const WriteModelOptions& options = {});

// The same of a network on a grid, whose rank 0 writes and holds one tensor at a time. Low-rank
// products are merged into their weights. Every rank of the context calls it, between steps; an
// error of rank 0 is an error of all. UserError while an optimizer keeps the master weights.
void save_model(Context& context, const Parameters& parameters, const DecoderConfig& config,
                const std::filesystem::path& directory, const WriteModelOptions& options = {});

// A weight with its low-rank product, if it has one: what `read` returns of our `name`.
at::Tensor merged_weight(const DecoderConfig& config, const std::string& name,
                         const std::function<at::Tensor(const std::string&)>& read);

// Writes the low-rank products of a network as PEFT's adapter_model.safetensors and
// adapter_config.json, in the same way. UserError for a network without any, and for GPT-2's
// family, whose fused products PEFT adapts in another way.
int64_t write_adapter(const std::filesystem::path& directory, const DecoderConfig& config,
                      const std::function<at::Tensor(const std::string&)>& read, const WriteModelOptions& options = {});

// Files of a Hugging Face directory that a run keeps for its exports: config.json,
// generation_config.json and those of the tokenizer.
std::vector<std::filesystem::path> files_beside_weights(const std::filesystem::path& directory);
bool belongs_to_tokenizer(const std::filesystem::path& file);  // one of them, by its name

// Copies the files into `directory`, in place of all that it held; without files it is removed. It
// is replaced when all are there. By one process. BackendError if the system cannot write.
void keep_files(const std::filesystem::path& directory, const std::vector<std::filesystem::path>& files);

// The folder in which a run keeps them.
inline std::filesystem::path origin_of_run(const std::filesystem::path& run) { return run / "origin"; }

}  // namespace axonn
