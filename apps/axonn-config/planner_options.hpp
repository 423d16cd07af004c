#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <axonn/perfmodel/search/grid_search.hpp>

#include "network_flags.hpp"

namespace CLI {
class App;
}

// What can be said on the command line, as it was said.
struct PlannerOptions {
  std::vector<std::string> gpus;
  NetworkFlags network;
  std::string machine = "perlmutter";
  std::string batch, batch_tokens;  // samples or tokens; both empty: the network's usual batch
  std::string mode, coefficients, objective, order;
  std::vector<std::string> fixed;
  int64_t min_tensor = 1, max_tensor = 0;
  std::vector<std::string> precisions = {"bf16"};
  std::string checkpointing = "auto";
  int64_t micro_batch = 0;
  std::string reduction = "auto";
  std::string overlap = "all";
  std::string optimizer = "adamw";
  double memory_margin = 0.08;
  int64_t top = 20;

  bool json = false, csv = false;
  std::string plot, measurements;
  std::string grid;  // explain, launch
  std::string launcher = "srun";
  bool verbose = false;

  void add_flags(CLI::App& app);

  // Throw UserError. A search in mode exact ranks by seconds of a step; a published model (mode agnostic, aware or measured, or
  // coefficients paper or authors) as the paper does, by seconds of communication. --objective decides otherwise.
  axonn::SearchOptions search(const axonn::NetworkModel& model) const;

  std::string repeated() const;  // the flags that a second command needs to speak of the same job

 private:
  int64_t tokens_of_batch(const axonn::NetworkModel& model) const;
};
