#include "explain/explained_job.hpp"

axonn::CollectiveSeconds ExplainedJob::collectives(const axonn::LayerWork& layer) const {
  axonn::CollectiveSeconds once =
      layer_collectives(layer, layout.grid, layout.links, tokens(), bytes(), gradient_bytes());
  if (options.block_messages) once.all_gather_z = once.reduce_scatter_z = 0;
  return once;
}

axonn::ExchangeSeconds ExplainedJob::context(const axonn::LayerWork& layer) const {
  return context_exchange(layer, layout.grid, layout.context_link, tokens(), bytes(), layout.context);
}

axonn::ExchangeSeconds ExplainedJob::rows(const axonn::LayerWork& layer) const {
  if (!layout.attention_rows) return {};
  return rows_exchange(layer, layout.grid, layout.links, tokens(), bytes());
}

double ExplainedJob::stream(const axonn::LayerWork& layer) const {
  if (!layout.norm_rows || !trainer()) return 0;
  return stream_gather_seconds(layer, layout.grid, layout.links, tokens(), bytes());
}

std::vector<NamedMessages> messages_of(const ExplainedJob& job) {
  if (!job.options.block_messages || job.layout.grid.z == 1) return {};
  const auto [blocks, others] = messages_over_z(job.network.layers, job.layout.grid, job.settings());
  return {{"blocks", blocks}, {"other weights", others}};
}

std::string seconds_text(double seconds) { return fixed_text(seconds, 6) + " s"; }
