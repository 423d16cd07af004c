#include "wrap/parallel_plan.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <c10/util/Type.h>
#include <torch/nn/modules/dropout.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/wrap/unit.hpp"
#include "wrap/layer_child.hpp"

namespace axonn {
namespace {

namespace nn = torch::nn;
constexpr const char* kWhere = "wrap.parallelize";

class Planner {
 public:
  Planner(nn::Module& module, Context& context) : context_(context) { find_owners(module); }

  void visit(nn::Module& module, const std::string& name) {
    if (!seen_.insert(&module).second) return;
    AXONN_CHECK(dynamic_cast<LayerChild*>(&module) == nullptr, kWhere, "'", name,
                "' was parallelized before; call parallelize() once per module");
    auto* sequential = dynamic_cast<nn::SequentialImpl*>(&module);
    if (sequential != nullptr) walk(*sequential, name);
    for (const auto& child : module.named_children())
      if (!plan_.layers.contains(child.value().get())) visit(*child.value(), joined(name, child.key()));
    const bool draws = context_.shape().x * context_.shape().y > 1 && draws_random_numbers(module);
    AXONN_CHECK(!draws || numbered_.contains(&module), kWhere, "'", name, "' (", c10::demangle(typeid(module).name()),
                ") draws random numbers, which would differ between ranks along X and Y; make it a torch::nn::Dropout "
                "that is a child of a Sequential, set its probability to 0, or choose a grid with X = Y = 1");
  }

  ParallelPlan result() {
    AXONN_CHECK(!plan_.layers.empty(), kWhere,
                "no Sequential of the module has a Linear, Conv2d, LayerNorm, GroupNorm or Embedding to divide over X "
                "and Y; shard() wraps any module over Z and data");
    return std::move(plan_);
  }

 private:
  static std::string joined(const std::string& parent, const std::string& key) {
    return parent.empty() ? key : parent + "." + key;
  }

  // Without modules(), which refuses a module that no shared_ptr has.
  void find_owners(const nn::Module& module) {
    for (const auto& each : module.named_parameters(/*recurse=*/false))
      owners_[each.value().unsafeGetTensorImpl()].insert(&module);
    for (const auto& child : module.children()) find_owners(*child);
  }

  void walk(nn::SequentialImpl& sequential, const std::string& name) {
    Stream stream;
    std::string last;
    for (size_t i = 0; i < sequential.size(); ++i) {
      const nn::Module& module = *sequential.ptr(i);
      const std::string key = sequential.named_children()[i].key();
      ParallelPlan::Child child{&sequential, i, key, joined(name, key), {}, stream, stream, stream, {}};
      choose(module, child);
      check_features(child, last);
      const bool ends = i + 1 == sequential.size();
      child.after = ends ? Stream{} : child.output;
      stream = child.output;
      last = child.name;
      if (child.layer || !child.before.same_place(child.input) || !child.output.same_place(child.after))
        plan_.children.push_back(std::move(child));
    }
  }

  // Fills in the layer, its input and its output.
  void choose(const nn::Module& module, ParallelPlan::Child& child) {
    if (typeid(module) == typeid(nn::DropoutImpl)) {
      child.layer = dropout_layer(module, child);
      numbered_.insert(&module);
      return;
    }
    child.layer = known_layer(module, child.before);
    if (child.layer) {
      child.input = child.layer->input;
      child.output = child.layer->output;
    } else if (const auto flat = flattened(context_, module, child.before)) {
      child.output = *flat;
    } else if (!keeps_stream(context_, module, child.before)) {
      child.input = child.output = {};
    }
  }

  std::optional<SplitLayer> known_layer(const nn::Module& module, const Stream& before) {
    const auto known = made_.find(&module);
    if (known != made_.end()) return known->second;
    const auto parameters = module.named_parameters();
    const bool own = std::ranges::all_of(parameters, [&](const auto& each) {
      return each.value().requires_grad() && owners_[each.value().unsafeGetTensorImpl()].size() == 1;
    });
    if (!own || dynamic_cast<const UnitBase*>(&module) != nullptr) return {};
    const auto layer = split_layer(context_, module, before);
    if (layer) {
      made_[&module] = *layer;
      plan_.layers[&module] = layer->module;
    }
    return layer;
  }

  SplitLayer dropout_layer(const nn::Module& module, const ParallelPlan::Child& child) const {
    const double probability = dynamic_cast<const nn::DropoutImpl&>(module).options.p();
    AXONN_CHECK(probability < 1, kWhere, "'", child.name, "' drops everything; give it a probability below 1");
    return {nullptr, child.before, child.before,
            [&context = context_, stream = child.before, probability, name = child.name](const at::Tensor& x) {
              const int64_t ranks = stream.replicated() ? 1 : context.shape()[*stream.layout.axis];
              const int64_t features = stream.features > 0 ? stream.features : x.size(stream.dim) * ranks;
              const Value value{features_last(x, stream), features, stream.layout};
              return features_back(dropout(context, value, probability, name).tensor, stream);
            }};
  }

  static void check_features(const ParallelPlan::Child& child, const std::string& last) {
    const Stream &from = child.before, &to = child.input;
    AXONN_CHECK(from.replicated() || to.replicated() || from.dim != to.dim || from.features == 0 || to.features == 0 ||
                    from.features == to.features,
                kWhere, "'", child.name, "' takes ", to.features, " features, and '", last, "' gives ", from.features);
  }

  Context& context_;
  std::map<const at::TensorImpl*, std::set<const nn::Module*>> owners_;
  std::map<const nn::Module*, SplitLayer> made_;
  std::set<const nn::Module*> seen_, numbered_;
  ParallelPlan plan_;
};

}  // namespace

ParallelPlan plan_sequentials(nn::Module& module, Context& context) {
  Planner planner(module, context);
  planner.visit(module, "");
  return planner.result();
}

}  // namespace axonn
