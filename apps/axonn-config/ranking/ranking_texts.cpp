// Words about a ranking, its network and its machine.
#include "output/columns.hpp"
#include "planner_commands.hpp"

// "llama.json: layers 32, hidden 4096, ..., 8030261248 parameters"
std::string network_text(const axonn::NetworkModel& network) {
  std::string text = network.name + ":";
  for (const axonn::NamedSize& size : network.sizes)
    text += " " + size.name + (size.value == "true" ? "" : " " + size.value) + ",";
  text += " " + std::to_string(network.parameters) + " parameters";
  if (network.active_parameters < network.parameters && network.active_parameters > 0)
    text += ", of which a token meets " + std::to_string(network.active_parameters);
  return text;
}

std::string micro_text(const axonn::PlannedLayout& layout) {
  return std::to_string(layout.micro_batches) + " x " + std::to_string(layout.micro_batch) +
         (layout.checkpoint() ? " again" : "") + (layout.attention_rows ? " rows" : "") +
         (layout.norm_rows ? " norms" : "") +
         (layout.context.ranks > 1 ? " context " + std::to_string(layout.context.ranks) : "");
}

std::string place_text(const axonn::PlannedLayout& layout) {
  if (!layout.placement) return "-";
  return axonn::AxisPlacement{{layout.placement->levels.front()}}.to_string();
}

std::string what_if_text(const axonn::SearchOptions& options) {
  std::string text;
  const auto say = [&](bool is, const std::string& words) {
    if (is) text += (text.empty() ? "what if (not with our trainer): " : ", ") + words;
  };
  say(options.stages > 1, std::to_string(options.stages) + " stages of a pipeline, " +
                              std::to_string(options.virtual_stages) +
                              " chunks each; grids, sizes and GPUs are one stage's");
  say(options.divided_gradients, "gradients divided over data");
  say(options.block_messages, "the weights of a block move over z in one message");
  say(options.moment_bytes > 0, "an element of the optimizer's moments needs " + std::to_string(options.moment_bytes) +
                                    (options.moment_bytes > 1 ? " bytes" : " byte"));
  say(options.logits_chunks > 1, "logits in " + std::to_string(options.logits_chunks) + " parts, one after the other");
  say(options.context.gathers, "keys and values gathered before attention");
  say(options.context.over_data, "ranks of data divide sequences if z = 1");
  say(options.checkpointing == axonn::Checkpointing::selective, "only attention runs again");
  say(options.checkpointing == axonn::Checkpointing::stopped, "blocks run again without their last product");
  return text.empty() ? text : text + "\n";
}

std::string context_text(const axonn::ContextSplit& context, const char* separator) {
  if (context.ranks == 1) return "";
  return separator + ("each sequence over " + std::to_string(context.ranks) + " ranks of z") +
         (context.over_data ? " (of data if z = 1)" : "");
}

std::string band_text(const axonn::Machine& machine) {
  const std::string band = "seconds within " + fixed_text(100 * machine.band(), 0) + "%";
  return band + (machine.error_band > 0 ? " of nine of ten measured runs"
                                        : " at best: no measured run was compared with this machine (see fit)");
}
