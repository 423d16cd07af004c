#include <utility>

#include <nlohmann/json.hpp>

#include "explain/explained_job.hpp"

nlohmann::ordered_json explained_terms(const ExplainedJob& job) {
  nlohmann::ordered_json all, layers, rings;
  for (const axonn::Axis axis : axonn::kAxes) {
    const axonn::AxisLink& link = link_of(job.layout.links, axis);
    if (job.layout.grid[axis] == 1) continue;
    rings[std::string(to_string(axis))] = {{"ranks", job.layout.grid[axis]},
                                           {"gbps", link.gbps},
                                           {"seconds_per_byte", link.seconds_per_byte},
                                           {"latency_seconds", link.latency_seconds},
                                           {"level_by_level", link.multi_level}};
  }
  for (const axonn::LayerWork& layer : job.network.layers) {
    const axonn::CollectiveSeconds once = job.collectives(layer);
    const axonn::ExchangeSeconds context = job.context(layer), rows = job.rows(layer);
    const double forward = static_cast<double>(layer.count) *
                           layer_forward_seconds(layer, job.layout.grid, job.machine, job.tokens(), job.settings());
    layers.push_back({{"name", layer.name},
                      {"count", layer.count},
                      {"forward_seconds", forward},
                      {"all_gather_z", once.all_gather_z},
                      {"reduce_scatter_z", once.reduce_scatter_z},
                      {"all_reduce_forward", once.all_reduce_forward},
                      {"all_reduce_backward", once.all_reduce_backward},
                      {"all_reduce_data", once.all_reduce_data},
                      {"context_forward", context.forward},
                      {"context_backward", context.backward},
                      {"rows_forward", rows.forward},
                      {"rows_backward", rows.backward},
                      {"stream_backward", job.stream(layer)}});
  }
  all["rings"] = std::move(rings);
  for (const auto& [name, messages] : messages_of(job)) {
    const axonn::AxisLink& link = link_of(job.layout.links, axonn::Axis::z);
    all["messages_over_z"].push_back({{"name", name},
                                      {"count", messages.count},
                                      {"elements", messages.elements},
                                      {"all_gather_z", messages.seconds(link, job.bytes())},
                                      {"reduce_scatter_z", messages.seconds(link, job.gradient_bytes())}});
  }
  all["one_pass"] = std::move(layers);
  return all;
}

nlohmann::ordered_json explained_json(const ExplainedJob& job) {
  nlohmann::ordered_json all = ranking_inputs_json(job.network, job.machine, job.options);
  all["layout"] = layout_json(job.layout);
  all.update(explained_terms(job));
  return all;
}
