#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/wrap/state_dict.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {

// A tensor of a safetensors file as this rank holds it.
struct StoredTensor {
  std::vector<std::string> names;
  std::vector<int64_t> shape;
  at::Tensor held;                    // flat: this rank's range, or everything
  const ArenaSlot* slot = nullptr;    // null: everything, on every rank
  at::ScalarType dtype = at::kFloat;  // in a file that is written
  bool of_layer = false;              // divided and ordered as a layer of axonn has it
};

// UserError within a step, and what check_weights() says of weights that are saved. Waits for
// weights that are on their way.
enum class Held : uint8_t { saved, loaded };
void check_between_steps(const WrappedModule& parameters, Held held);

// Those of a module: parameters, frozen ones and buffers. dtype: that of the parameters in a file.
std::vector<StoredTensor> tensors_of(const WrappedModule& parameters, std::optional<at::ScalarType> dtype = {});

// shard_bytes: as in SaveStateDictOptions. Collective.
void write_tensors(Context& context, const std::vector<StoredTensor>& tensors, const std::filesystem::path& file,
                   int64_t shard_bytes = 0);
// Of a safetensors file. Collective.
std::set<std::string> names_in(Context& context, const std::filesystem::path& file);
LoadedStateDict read_tensors(Context& context, const std::vector<StoredTensor>& tensors,
                             const std::filesystem::path& file, const LoadStateDictOptions& options);

}  // namespace axonn
