#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "axonn/wrap/shard.hpp"

namespace torch::optim {
class Optimizer;
}

// The weights of a wrapped module as one safetensors file, with the names and shapes of
// named_parameters() and named_buffers() before shard(), so that load_state_dict(strict=True) of
// Python takes it. A tensor that has several names is stored under each of them. Every rank of the
// grid calls each function, between steps; the result is the same on every grid.
namespace axonn {

struct SaveStateDictOptions {
  std::optional<at::ScalarType> dtype = {};  // that of the parameters; nothing: of master weights
  // Most bytes of one file, which a larger tensor has to itself; 0: one file. Several are named
  // NAME-00001-of-00003.safetensors, and their index NAME.safetensors.index.json, as Hugging Face
  // names them. The index comes last.
  int64_t shard_bytes = 0;
};

// Rank 0 of the grid writes, and holds one tensor at a time. An old file stays until the new one is
// complete. UserError while an optimizer of axonn keeps the master weights; BackendError on all
// ranks if the file cannot be written.
void save_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                     const SaveStateDictOptions& options = {});

struct LoadStateDictOptions {
  bool strict = true;  // missing and unexpected tensors are an error
  // The name in the module of a tensor in the file; "" leaves the tensor out.
  std::function<std::string(const std::string&)> rename = {};
};

struct LoadedStateDict {
  std::vector<std::string> missing, unexpected;
};

// Reads one safetensors file or, where the name ends in .json, an index of several, such as Hugging
// Face's. Each rank reads its ranges only. Also reads torch.save(dict(net.state_dict()), FILE) of
// Python; each rank then holds the whole file for a moment. If a tensor has several names, one is
// enough. An optimizer of axonn needs state_changed() afterwards. UserError on all ranks, before
// anything is changed, that lists all tensors that are missing, unexpected (with the nearest name)
// or of another shape or kind of number; if two names of one tensor have different values; if a
// file is broken; if another rank's file is another one: names, shapes, types and up to 768 values
// of each tensor are compared.
LoadedStateDict load_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                                const LoadStateDictOptions& options = {});

// The state of a torch::optim optimizer of local(), by parameter: "exp_avg/conv1.weight". For SGD,
// Adam, AdamW, Adagrad and RMSprop; UserError for others. Options such as the learning rate are the
// program's. A loaded state continues with the same bits on the same grid.
void save_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file);
void load_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file);

}  // namespace axonn
