#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/hugging_face/config_file.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/config.hpp"

namespace axonn {

// A network in a directory of Hugging Face's: config.json, and weights in model.safetensors or in
// several files with model.safetensors.index.json. Nothing in it is ever run.
class ModelDirectory {
 public:
  // Reads config.json and the headers of the weights' files, no weights; without communication.
  // UserError for a network that we cannot train (read_config()), for weights in another format,
  // and that lists all tensors that are missing, left over (with the nearest name), or of another
  // shape or type.
  explicit ModelDirectory(const std::filesystem::path& directory);
  ~ModelDirectory();
  ModelDirectory(ModelDirectory&&) noexcept;
  ModelDirectory& operator=(ModelDirectory&&) noexcept;

  const std::filesystem::path& path() const;
  const HuggingFaceConfig& config() const;
  int64_t parameters() const;    // elements of its tensors; those of a tied head once
  at::ScalarType dtype() const;  // type of the embedding, which is the first tensor

  // Fills this rank's ranges of the master weights, and the weights from them, before an optimizer
  // is made. A rank reads about what it holds, in pieces of at most 16 MiB. `parameters` are those
  // of a Decoder with the shape of config(), or with a shorter sequence. Every rank of the context
  // calls it; an error of one rank is an error of all. UserError if a head that should be tied to
  // the embedding has other values.
  void load(Context& context, const Parameters& parameters) const;

  // One of our tensors whole, on the CPU, in the type of the file: what write_model() and
  // write_gguf() take. By one process. UserErrors as of load().
  at::Tensor read_whole(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether the path is a directory with a config.json of Hugging Face's.
bool is_model_directory(const std::filesystem::path& path);

}  // namespace axonn
