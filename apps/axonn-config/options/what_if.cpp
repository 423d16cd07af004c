#include "options/what_if.hpp"

#include <sstream>
#include <variant>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.options";

int64_t moment_bytes_of(std::string_view type) {
  if (type == "bf16") return 2;
  if (type == "int8") return 1;
  throw axonn::UserError(kWhere, "--what-if moments takes bf16 or int8, got '" + std::string(type) + "'");
}

int64_t count_of(const std::string& name, const std::string& value) {
  const int64_t number = axonn::parse_count(value, "--what-if " + name, axonn::Suffixes::decimal);
  AXONN_CHECK(number >= 1 && number <= 1024, kWhere, "--what-if ", name, " must be from 1 to 1024, got ", number);
  return number;
}

// "pipeline=8" or "zero2"
void read_word(const std::string& word, WhatIf& found) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (name == "pipeline")
    found.stages = count_of(name, value);
  else if (name == "chunks")
    found.virtual_stages = count_of(name, value);
  else if (name == "logits-chunks")
    found.logits_chunks = count_of(name, value);
  else if (name == "moments")
    found.moment_bytes = moment_bytes_of(value);
  else if (word == "gather-keys")
    found.gathers_keys = true;
  else if (word == "context-over-data")
    found.context_over_data = true;
  else if (word == "zero2")
    found.divided_gradients = true;
  else if (word == "block-messages")
    found.block_messages = true;
  else
    throw axonn::UserError(kWhere,
                           "--what-if takes pipeline=8, chunks=2, gather-keys, context-over-data, zero2, moments=bf16, "
                           "logits-chunks=8 and block-messages, got '" +
                               word + "'");
}

}  // namespace

void WhatIfFlags::bind(axonn::OptionTable& table) {
  table.add("training", "what_if", words,
            "what other programs do: pipeline=8, chunks=2, gather-keys, context-over-data, zero2, moments=bf16, "
            "logits-chunks=8, block-messages, or a list of them");
  table.for_experts({"training.what_if"});
}

WhatIf WhatIfFlags::parsed(axonn::OptimizerKind optimizer) const {
  WhatIf found;
  std::istringstream list(words);
  for (std::string word; std::getline(list, word, ',');) read_word(word, found);
  AXONN_CHECK(found.virtual_stages == 1 || found.stages > 1, kWhere,
              "--what-if chunks is for a pipeline: give pipeline=8 too");
  AXONN_CHECK(found.moment_bytes == 0 || axonn::optimizer_moments(optimizer) > 0, kWhere,
              "--what-if moments: ", to_string(optimizer), " has none: remove it");
  return found;
}

axonn::NetworkModel WhatIf::network(const NetworkFlags& flags, int64_t context) const {
  if (stages == 1 && context <= 1 && logits_chunks == 1) return flags.network();
  axonn::NetworkShape shape = flags.shape();
  std::visit(
      [&]<typename Shape>(Shape& sizes) {
        if constexpr (requires { sizes.layers; }) {
          const int64_t chunks = stages * virtual_stages;
          AXONN_CHECK(sizes.layers % chunks == 0, kWhere, "--what-if: ", chunks,
                      " stages and chunks must divide the layers, got ", sizes.layers);
          sizes.layers /= stages;
          // Both halves of a causal sequence are divided, so that all ranks have as many scores.
          AXONN_CHECK(context <= 1 || sizes.sequence % (2 * context) == 0, kWhere, "--context ", context,
                      " needs a --sequence that divides by ", 2 * context, ", got ", sizes.sequence);
        } else {
          throw axonn::UserError(
              kWhere, "--context, and --what-if pipeline and logits-chunks, are for transformers: remove them");
        }
      },
      shape);
  return network_model(flags.network().name, shape);
}

void WhatIf::add_to(axonn::SearchOptions& options) const {
  options.stages = stages;
  options.virtual_stages = virtual_stages;
  options.divided_gradients = divided_gradients;
  options.block_messages = block_messages;
  options.moment_bytes = moment_bytes;
  options.logits_chunks = logits_chunks;
  options.context.gathers = gathers_keys;
  options.context.over_data = context_over_data;
  options.divided_update = options.divided_update || divided_gradients;
  AXONN_CHECK(!any() || options.coefficients == axonn::Coefficients::trainer, kWhere,
              "--what-if is for coefficients trainer: remove --mode and --coefficients");
  AXONN_CHECK(options.context.ranks != 1 || !(gathers_keys || context_over_data), kWhere,
              "--what-if gather-keys and context-over-data are for divided sequences: give --context 8 too");
}
