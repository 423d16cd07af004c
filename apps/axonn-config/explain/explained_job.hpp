#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner_commands.hpp"

// A layout and what its seconds follow from.
struct ExplainedJob {
  const axonn::NetworkModel& network;
  const axonn::Machine& machine;
  const axonn::SearchOptions& options;
  const axonn::PlannedLayout& layout;

  bool trainer() const { return options.coefficients == axonn::Coefficients::trainer; }
  double passes() const { return trainer() ? static_cast<double>(layout.micro_batches) : 1; }
  double tokens() const {  // per rank per pass
    return static_cast<double>(options.batch_tokens) / (static_cast<double>(layout.grid.z) * layout.grid.data) /
           passes();
  }
  axonn::StepSettings settings() const {
    return {.recompute = layout.recompute,
            .attention_rows = layout.attention_rows,
            .norm_rows = layout.norm_rows,
            .block_messages = options.block_messages ? network.blocks : 0,
            .precision = layout.precision};
  }
  double bytes() const { return static_cast<double>(element_bytes(layout.precision)); }
  // Seconds of a layer's occurrences in one pass; 0 over Z if blocks are messages.
  axonn::CollectiveSeconds collectives(const axonn::LayerWork& layer) const;
  // Seconds of its exchange of keys and values, if a context is divided.
  axonn::ExchangeSeconds context(const axonn::LayerWork& layer) const;
  // Seconds of what it exchanges if rows of queries are divided.
  axonn::ExchangeSeconds rows(const axonn::LayerWork& layer) const;
  // Seconds in which backward gathers its input, if rows of the residual stream are divided.
  double stream(const axonn::LayerWork& layer) const;
  double gradient_bytes() const { return trainer() ? static_cast<double>(state_bytes(layout.precision)) : bytes(); }
};

struct NamedMessages {
  const char* name;
  axonn::BlockMessages messages;
};

// Nothing if each weight is a message, or if there are none over Z.
std::vector<NamedMessages> messages_of(const ExplainedJob& job);

std::string seconds_text(double seconds);  // "0.001234 s"

// The rings of the axes, and each collective of a pass with its formula and numbers.
void print_links(const ExplainedJob& job);
void print_layer(const ExplainedJob& job, const axonn::LayerWork& layer);
void print_messages(const ExplainedJob& job);

// Two layouts side by side: each part of their steps and of their memory.
void print_comparison(const axonn::PlannedLayout& one, const axonn::PlannedLayout& other);

nlohmann::ordered_json explained_terms(const ExplainedJob& job);  // its rings, messages and layers
nlohmann::ordered_json explained_json(const ExplainedJob& job);
