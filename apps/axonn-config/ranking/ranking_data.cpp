// The ranking as JSON and CSV.
#include <ostream>

#include <nlohmann/json.hpp>

#include "planner_commands.hpp"

namespace {

using Json = nlohmann::ordered_json;
using axonn::Axis;
using axonn::GridShape;
using axonn::PlannedLayout;

Json grid_json(const GridShape& grid) { return {grid.x, grid.y, grid.z, grid.data}; }

Json placement_json(const PlannedLayout& layout) {
  if (!layout.placement) return nullptr;
  Json levels = Json::array();
  for (const GridShape& level : layout.placement->levels) levels.push_back(grid_json(level));
  return levels;
}

Json level_by_level_json(const PlannedLayout& layout) {
  Json axes = Json::array();
  for (const Axis axis : axonn::kAxes)
    if (link_of(layout.links, axis).multi_level) axes.push_back(to_string(axis));
  return axes;
}

Json sizes_json(const axonn::NetworkModel& network) {
  Json sizes = Json::object();
  for (const axonn::NamedSize& size : network.sizes)
    sizes[size.name] = size.number ? Json(*size.number) : size.fraction ? Json(*size.fraction) : Json(size.value);
  return sizes;
}

}  // namespace

Json layout_json(const PlannedLayout& layout) {
  const axonn::StepTime& time = layout.time;
  return {{"grid", grid_json(layout.grid)},
          {"seconds", time.seconds()},
          {"communication_seconds", time.communication.total()},
          {"compute_seconds", time.compute()},
          {"forward_seconds", time.forward},
          {"backward_seconds", time.backward},
          {"optimizer_seconds", time.optimizer},
          {"exposed_seconds",
           {{"all_reduce", time.exposed_all_reduce},
            {"gather_scatter", time.exposed_gather_scatter},
            {"data", time.exposed_data},
            {"context", time.exposed_context}}},
          {"pipeline_seconds", time.bubble},
          {"exposed_share", time.exposed() / time.seconds()},
          {"collectives",
           {{"all_gather_z", time.communication.all_gather_z},
            {"reduce_scatter_z", time.communication.reduce_scatter_z},
            {"all_reduce_forward", time.communication.all_reduce_forward},
            {"all_reduce_backward", time.communication.all_reduce_backward},
            {"all_reduce_data", time.communication.all_reduce_data},
            {"context", time.communication.context}}},
          {"placement", placement_json(layout)},
          {"order", layout.order ? Json(axonn::to_string(*layout.order)) : Json(nullptr)},
          {"level_by_level", level_by_level_json(layout)},
          {"precision", to_string(layout.precision)},
          {"micro_batch", layout.micro_batch},
          {"micro_batches", layout.micro_batches},
          {"checkpoint", layout.checkpoint()},
          {"attention_rows", layout.attention_rows},
          {"norm_rows", layout.norm_rows},
          {"context", layout.context.ranks},
          {"cached_share", layout.cached},
          {"memory_bytes", layout.memory_bytes()},
          {"memory",
           {{"weights", layout.memory.weight_bytes},
            {"gradients", layout.memory.gradient_bytes},
            {"optimizer", layout.memory.optimizer_bytes},
            {"gathered", layout.memory.gathered_bytes},
            {"cache", layout.cache_bytes},
            {"activations", layout.memory.activation_bytes},
            {"logits", layout.memory.logits_bytes},
            {"block", layout.memory.block_bytes}}},
          {"tokens_per_second", layout.tokens_per_second},
          {"model_flops_utilisation", layout.model_utilisation},
          {"hardware_flops_utilisation", layout.hardware_utilisation},
          {"dollars_per_step", layout.dollars},
          {"ties_with_previous", layout.ties_with_previous}};
}

Json ranking_inputs_json(const axonn::NetworkModel& network, const axonn::Machine& machine,
                         const axonn::SearchOptions& options) {
  return {{"model", network.name},
          {"sizes", sizes_json(network)},
          {"parameters", network.parameters},
          {"active_parameters", network.active_parameters},
          {"machine", machine.name},
          {"error_band", machine.band()},
          {"batch_tokens", options.batch_tokens},
          {"tokens_are", network.tokens},
          {"context", options.context.ranks},
          {"what_if", what_if_text(options)},
          {"mode", to_string(options.mode)},
          {"coefficients", to_string(options.coefficients)},
          {"objective", to_string(options.objective)}};
}

nlohmann::ordered_json ranking_json(const Ranking& ranking) {
  Json layouts = Json::array(), rejected = Json::array();
  for (const size_t rank : shared_ranks(ranking)) {
    Json one = {{"rank", rank}};
    one.update(layout_json(ranking.result.layouts[layouts.size()]));
    layouts.push_back(std::move(one));
  }
  for (const axonn::Rejection& rejection : ranking.result.rejections) {
    Json one = {{"grid", grid_json(rejection.grid)}, {"reason", rejection.reason}};
    if (rejection.bytes_over > 0) one["bytes_over"] = rejection.bytes_over;
    rejected.push_back(std::move(one));
  }
  Json all = {{"considered", ranking.result.considered},
              {"candidates", ranking.result.candidates},
              {"evaluated", ranking.result.evaluated},
              {"search_milliseconds", ranking.milliseconds}};
  all.update(ranking_inputs_json(ranking.network, ranking.machine, ranking.options));
  if (ranking.line.output.sensitivity && !ranking.result.layouts.empty())
    all["sensitivity"] = sensitivity_json(ranking);
  all["layouts"] = std::move(layouts);
  all["rejected"] = std::move(rejected);
  return all;
}

void print_json(std::ostream& out, const nlohmann::ordered_json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_csv(std::ostream& out, const Ranking& ranking) {
  out << "x,y,z,data,seconds,communication_seconds,compute_seconds,exposed_all_reduce,exposed_gather_scatter,"
         "exposed_data,exposed_context,inside_node,order,"
         "micro_batch,micro_batches,checkpoint,context,precision,memory_bytes,tokens_per_second,model_flops_"
         "utilisation,"
         "dollars_per_step,tie\n";
  const auto precision = out.precision(10);
  for (const PlannedLayout& layout : ranking.result.layouts) {
    const axonn::StepTime& time = layout.time;
    const GridShape& grid = layout.grid;
    out << grid.x << ',' << grid.y << ',' << grid.z << ',' << grid.data << ',' << time.seconds() << ','
        << time.communication.total() << ',' << time.compute() << ',' << time.exposed_all_reduce << ','
        << time.exposed_gather_scatter << ',' << time.exposed_data << ',' << time.exposed_context << ','
        << place_text(layout) << ',' << (layout.order ? axonn::to_string(*layout.order) : "") << ','
        << layout.micro_batch << ',' << layout.micro_batches << ',' << layout.checkpoint() << ','
        << layout.context.ranks << ',' << to_string(layout.precision) << ',' << layout.memory_bytes() << ','
        << layout.tokens_per_second << ',' << layout.model_utilisation << ',' << layout.dollars << ','
        << layout.ties_with_previous << "\n";
  }
  out.precision(precision);
}
