#include "train/run_checkpoints.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "axonn/core/host_name.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
#include "core/files.hpp"
#include "train/step/train_step.hpp"

namespace axonn {
namespace {

// The number of the file that a rank writes to; none: one of its own. With several ranks per file
// there are fewer to make, open and remove.
std::optional<int64_t> file_of(const Communicator& everyone, int64_t files) {
  constexpr int kMostFiles = 256;
  if (files > 0) return everyone.rank() * files / everyone.size();
  if (everyone.size() <= kMostFiles) return std::nullopt;
  return static_cast<int64_t>(disk::xxh64_of(host_name()) >> 1);
}

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                               Communicator& everyone)
    : network_(network),
      config_(config),
      identity_(identity),
      writer_(network.context.grid(), everyone,
              {.directory = config.out,
               .keep = static_cast<int>(std::min<int64_t>(config.keep, std::numeric_limits<int>::max())),
               .file = file_of(everyone, config.save_files)}),
      saver_(writer_, everyone,
             {.behind = config.save_async && !config.cuda_graph,  // a capture allows no calls of other threads
              .memory = config.save_memory,
              .local_ranks = network.environment.local_ranks(),
              .wait_for_tensors = [&network] { network.parameters.schedule().wait_for_weights(); }}),
      tensors_(checkpoint_tensors(network.parameters, &network.optimizer)) {}

void RunCheckpoints::expect() {
  if (config_.save_every > 0 && network_.context.options().device.is_cpu()) saver_.expect(tensors_);
}

void RunCheckpoints::save(const TrainStep& step, int64_t steps) {
  CheckpointState state;
  state.run = identity_.run;
  state.start = identity_.start;
  step.describe(state, steps);
  state.data_fingerprint = identity_.fingerprint;
  state.configuration = identity_.configuration;
  state.tokenizer = identity_.tokenizer;
  state.choices = identity_.choices;
  auto tensors = tensors_;
  for (CheckpointTensor& tensor : network_.task.state()) {
    tensor.shard = tensor.shard.clone();  // small, and the task changes it when it wants
    tensors.push_back(std::move(tensor));
  }
  saver_.save(std::move(state), std::move(tensors));
  if (!network_.optimizer.keeps_gradients()) saver_.start_copies();  // to copy during the forward pass
}

}  // namespace axonn
