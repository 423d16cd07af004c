#include "wrap/layer_choice.hpp"

#include <algorithm>

#include <torch/nn/modules/dropout.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/wrap/unit.hpp"

namespace axonn {
namespace {

namespace nn = torch::nn;
constexpr const char* kWhere = "wrap.parallelize";

}  // namespace

void LayerChoice::know(const nn::Module& module) {
  for (const auto& each : module.named_parameters(/*recurse=*/false))
    owners_[each.value().unsafeGetTensorImpl()].insert(&module);
}

void LayerChoice::choose(const nn::Module& module, ModulePlace& place, int64_t parts) {
  if (is_dropout(module)) {
    place.layer = dropout_layer(module, place);
    numbered_.insert(&module);
    return;
  }
  place.layer = known_layer(module, place.before, parts);
  if (place.layer) {
    place.input = place.layer->input;
    place.output = place.layer->output;
  } else if (const auto flat = flattened(context_, module, place.before)) {
    place.output = *flat;
  } else if (!keeps_stream(context_, module, place.before)) {
    place.input = place.output = {};
  }
}

std::optional<SplitLayer> LayerChoice::known_layer(const nn::Module& module, const Stream& before, int64_t parts) {
  const auto known = made_.find(&module);
  if (known != made_.end()) return known->second;
  const auto parameters = module.named_parameters();
  const bool own = std::ranges::all_of(parameters, [&](const auto& each) {
    return each.value().requires_grad() && owners_[each.value().unsafeGetTensorImpl()].size() == 1;
  });
  if (!own || whole_.contains(&module) || dynamic_cast<const UnitBase*>(&module) != nullptr) return {};
  const auto layer = split_layer(context_, module, before, parts);
  if (layer) {
    made_[&module] = *layer;
    layers_[&module] = layer->module;
  }
  return layer;
}

SplitLayer LayerChoice::dropout_layer(const nn::Module& module, const ModulePlace& place) const {
  const double probability = dynamic_cast<const nn::DropoutImpl&>(module).options.p();
  AXONN_CHECK(probability < 1, kWhere, "'", place.name, "' drops everything; give it a probability below 1");
  return {
      nullptr, place.before, place.before,
      [context = ContextHandle(context_), stream = place.before, probability, name = place.name](const at::Tensor& x) {
        const int64_t ranks = stream.replicated() ? 1 : context->shape()[*stream.layout.axis];
        const int64_t features = stream.features > 0 ? stream.features : x.size(stream.dim) * ranks;
        const Value value{features_last(x, stream), features, stream.layout};
        return features_back(dropout(context, value, probability, name).tensor, stream);
      }};
}

}  // namespace axonn
