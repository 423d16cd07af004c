#include "axonn/wrap/wrapped_checkpoint.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "wrap/stored/optimizer_state.hpp"
#include "wrap/split_layer.hpp"

namespace axonn {
namespace {

using Description = CheckpointReader::Description;
constexpr const char* kWeights = "weights/";  // before the module's names

Communicator& everyone(const WrappedModule& parameters) {
  return parameters.network().context().communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data});
}

ShardSpec whole_spec(const std::vector<int64_t>& shape) {
  ShardSpec spec;
  for (const int64_t size : shape) spec.dims.push_back(Dim::whole(size));
  if (spec.dims.empty()) spec.dims.push_back(Dim::whole(1));
  return spec;
}

std::vector<StoredTensor> all_tensors(const WrappedModule& parameters, const std::vector<StoredTensor>& optimizer) {
  std::vector<StoredTensor> tensors;
  for (StoredTensor& each : tensors_of(parameters)) {
    if (std::ranges::find(each.shape, 0) != each.shape.end()) continue;  // nothing to keep
    each.names = {kWeights + each.names.front()};
    tensors.push_back(std::move(each));
  }
  tensors.insert(tensors.end(), optimizer.begin(), optimizer.end());
  return tensors;
}

CheckpointTensor in_checkpoint(const StoredTensor& tensor) {
  return {.name = tensor.names.front(),
          .spec = tensor.slot != nullptr ? tensor.slot->spec : whole_spec(tensor.shape),
          .shard = tensor.held};
}

// The kernel of a Conv2d lies with its channels last where a layer of axonn has it, and as LibTorch
// has it otherwise.
bool is_layers_kernel(const ShardSpec& spec) {
  return spec.dims.size() == 4 && std::ranges::any_of(spec.dims, [](const Dim& dim) { return dim.axis().has_value(); });
}

// A kernel that the checkpoint has in the other order.
struct OtherOrder {
  at::Tensor whole;  // as in the checkpoint
  const StoredTensor* tensor = nullptr;
};

void take(const OtherOrder& read, const Context& context) {
  const StoredTensor& tensor = *read.tensor;
  const at::Tensor named = tensor.of_layer ? read.whole.view(tensor.shape) : as_named(read.whole, tensor.shape);
  const at::Tensor stored = tensor.of_layer ? as_stored(named) : named;
  tensor.held.copy_(stored_part(stored.reshape({-1}), *tensor.slot, context.shape(), context.at()));
}

void check_known(const std::vector<Description>& there, const std::vector<StoredTensor>& here,
                 const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const StoredTensor& each : here) names.push_back(each.names.front());
  for (const Description& each : there)
    AXONN_CHECK(std::ranges::find(names, each.name) != names.end(), "wrap.checkpoint", directory.string(), " has '",
                each.name, "', which this module and optimizer have not; load it into those that saved it",
                did_you_mean(each.name, names));
}

// What is asked of a checkpoint.
struct Asked {
  std::vector<CheckpointTensor> tensors;
  std::vector<OtherOrder> others;
};

Asked to_read(const CheckpointReader& reader, const std::vector<StoredTensor>& tensors) {
  check_known(reader.tensors(), tensors, reader.directory());
  Asked asked;
  for (const StoredTensor& each : tensors) {
    CheckpointTensor& tensor = asked.tensors.emplace_back(in_checkpoint(each));
    const auto there = std::ranges::find(reader.tensors(), tensor.name, &Description::name);
    if (there == reader.tensors().end() || is_layers_kernel(there->spec) == is_layers_kernel(tensor.spec)) continue;
    tensor.spec = whole_spec(there->spec.global_shape());
    tensor.shard = at::empty({tensor.spec.global_numel()}, each.held.options());
    asked.others.push_back({tensor.shard, &each});
  }
  return asked;
}

}  // namespace

std::filesystem::path save_checkpoint(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                                      const std::filesystem::path& directory, const CheckpointState& state) {
  check_between_steps(parameters, Held::saved);
  const at::NoGradGuard no_grad;
  const Context& context = parameters.network().context();
  std::vector<CheckpointTensor> tensors;
  std::ranges::transform(all_tensors(parameters, tensors_of(parameters, optimizer)), std::back_inserter(tensors),
                         in_checkpoint);
  const CheckpointWriter writer(context.grid(), everyone(parameters), {.directory = directory});
  return writer.save(state, tensors);
}

CheckpointState load_checkpoint(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                                const std::filesystem::path& directory) {
  check_between_steps(parameters, Held::loaded);
  const at::NoGradGuard no_grad;
  Context& context = parameters.network().context();
  const CheckpointReader reader(everyone(parameters), directory);
  std::set<std::string> names;
  for (const Description& each : reader.tensors())
    if (!each.name.starts_with(kWeights)) names.insert(each.name);
  std::optional<StateToRead> optimizer_state;
  std::vector<StoredTensor> tensors;
  Asked asked;
  all_ranks_or_none(everyone(parameters), [&] {
    optimizer_state.emplace(parameters, optimizer, names);
    tensors = all_tensors(parameters, optimizer_state->tensors());
    asked = to_read(reader, tensors);
  });
  reader.load([&](AxisSet axes) -> Communicator& { return context.communicators().on_cpu(axes); }, context.shape(),
              context.at(), asked.tensors);
  all_ranks_or_none(everyone(parameters), [&] {
    for (const OtherOrder& each : asked.others) take(each, context);
    optimizer_state->give_to(optimizer);
  });
  parameters.network().values_loaded({});
  parameters.network().frozen_written();
  return reader.state();
}

}  // namespace axonn
