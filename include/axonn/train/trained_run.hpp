#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/parameter.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/optimizer.hpp"
#include "axonn/optim/spike_guard.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// Data that a checkpoint holds besides tensors; see checkpoint.hpp.
struct RunIdentity {
  std::string run;                                  // unique name of the run; kept when it is resumed in its directory
  std::string start = {};                           // unique name of this start
  std::string title;                                // "gpt 10.7 M parameters", for the first line
  std::string data;                                 // "tinyshakespeare.txt: 1.0 M tokens"
  std::string configuration;                        // JSON object
  std::string config_toml = {};                     // the same as a file that --config reads
  MemoryPrediction memory = {};                     // a rank's
  std::string tokenizer;                            // JSON object
  uint64_t fingerprint = 0;                         // fingerprint of the data
  std::map<std::string, std::string> choices = {};  // see CheckpointState
  // Of a resumed run:
  std::string checkpoint = {};  // its directory
  std::string from = {};        // the same as starts.jsonl names it: absolute if it is not in the run's own directory
  std::optional<LossScale::State> loss_scale = {};
  std::optional<SpikeGuard::State> spikes = {};
};

// The objects of a run, all on one grid. They must outlive train().
struct TrainedNetwork {
  Environment& environment;
  Context& context;
  const Parameters& parameters;
  Optimizer& optimizer;
  TrainTask& task;
};

}  // namespace axonn
