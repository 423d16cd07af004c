#pragma once

#include <cstdint>
#include <string>

#include <axonn/config/option_table.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>

#include "options/network_flags.hpp"

// Features that this trainer does not have, to compare with other programs.
struct WhatIf {
  int64_t stages = 1, virtual_stages = 1;  // a pipeline's
  bool divided_gradients = false, block_messages = false;
  int64_t moment_bytes = 0, logits_chunks = 1;
  bool gathers_keys = false, context_over_data = false;  // ContextSplit's

  // Whether a feature is on that export cannot write.
  bool beyond_export() const {
    return stages > 1 || virtual_stages > 1 || divided_gradients || moment_bytes > 0 || logits_chunks > 1;
  }
  bool any() const { return beyond_export() || gathers_keys || context_over_data || block_messages; }

  // The network of the flags; with a pipeline, that of a stage. `context` ranks divide its
  // sequences. UserError if it does not divide.
  axonn::NetworkModel network(const NetworkFlags& flags, int64_t context) const;
  // After TrainingFlags has added its own. UserError if the options say how they are searched in
  // another way.
  void add_to(axonn::SearchOptions& options) const;
};

// --what-if: a list of words.
struct WhatIfFlags {
  std::string words;

  void bind(axonn::OptionTable& table);
  WhatIf parsed(axonn::OptimizerKind optimizer) const;  // throws UserError
};
