#include "wrap/find_parameters.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.shard";
namespace nn = torch::nn;

template <typename T>
const at::Tensor* member_of(const nn::Module& module, const std::string& name) {
  const auto* typed = dynamic_cast<const T*>(&module);
  if (typed == nullptr) return nullptr;
  if constexpr (requires { typed->bias; })
    if (name == "bias") return &typed->bias;
  return name == "weight" ? &typed->weight : nullptr;
}

// The member through which a module of LibTorch reads a registered parameter; null if not known.
const at::Tensor* read_member(const nn::Module& module, const std::string& name) {
  const at::Tensor* found = nullptr;
  const auto look = [&]<typename... T>() { ((found = found != nullptr ? found : member_of<T>(module, name)), ...); };
  look.
  operator()<nn::LinearImpl, nn::BilinearImpl, nn::EmbeddingImpl, nn::EmbeddingBagImpl, nn::Conv1dImpl, nn::Conv2dImpl,
             nn::Conv3dImpl, nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl, nn::ConvTranspose3dImpl,
             nn::LayerNormImpl, nn::GroupNormImpl, nn::BatchNorm1dImpl, nn::BatchNorm2dImpl, nn::BatchNorm3dImpl>();
  return found;
}

void check_not_stale(const nn::Module& module, const std::string& prefix, const std::string& key,
                     const at::Tensor& registered) {
  const at::Tensor* read = read_member(module, key);
  AXONN_CHECK(read == nullptr || read->is_same(registered), kWhere, "parameter '", prefix, key,
              "' is not the tensor that its module reads, because another one was assigned to the member; tie weights "
              "by using one tensor in forward, or register one module under two names");
}

void check_parameter(const std::string& name, const at::Tensor& tensor, const Context& context) {
  const auto complain = [&](bool fine, const std::string& what) {
    AXONN_CHECK(fine, kWhere, "parameter '", name, "' ", what);
  };
  complain(tensor.layout() == at::kStrided, "is sparse; shard() takes dense parameters");
  complain(!tensor.is_complex(), "is complex; keep its real and imaginary part as two parameters");
  complain(tensor.is_leaf(), "is computed from other tensors; register those");
  const bool wrapped = tensor.requires_grad() && torch::autograd::impl::post_acc_grad_hooks(tensor) != nullptr;
  complain(!wrapped, "was wrapped before; call shard() once per module");
  const bool whole = tensor.storage_offset() == 0 &&
                     tensor.storage().nbytes() == static_cast<size_t>(tensor.numel()) * tensor.element_size();
  complain(!tensor.is_view() && whole, "is a view of a larger tensor; register a clone() of it");
  complain(tensor.is_contiguous(), "is not contiguous; register it as contiguous()");
  const c10::Device device = context.options().device;
  complain(tensor.is_meta() || tensor.device() == device,
           detail::concatenate("lies on ", tensor.device().str(), ", and the context on ", device.str(),
                               "; call to() before shard()"));
  const at::ScalarType needed = context.arena_types().master;
  complain(tensor.scalar_type() == needed || tensor.scalar_type() == context.options().dtype,
           detail::concatenate("is of type ", c10::toString(tensor.scalar_type()), ", and the context needs ",
                               c10::toString(needed), "; call to() before shard(), or choose ContextOptions::dtype"));
}

// On a grid the forward would change only the copy that this rank has gathered.
void check_not_renormalised(const nn::Module& module, const std::string& prefix) {
  const auto* embedding = dynamic_cast<const nn::EmbeddingImpl*>(&module);
  const auto* bag = dynamic_cast<const nn::EmbeddingBagImpl*>(&module);
  const bool changed =
      (embedding != nullptr && embedding->options.max_norm()) || (bag != nullptr && bag->options.max_norm());
  AXONN_CHECK(
      !changed, kWhere, "parameter '", prefix,
      "weight' is changed in forward by max_norm, and a sharded weight would lose that; leave max_norm out, and "
      "scale the rows that are read");
}

// LibTorch's batch_norm takes weights and statistics of one type.
void check_statistics(const nn::Module& module, const std::string& prefix, const Context& context) {
  if (dynamic_cast<const BatchNormBase*>(&module) != nullptr) return;  // computes in fp32
  const auto parameters = module.named_parameters(/*recurse=*/false), buffers = module.named_buffers(/*recurse=*/false);
  const at::Tensor* mean = buffers.find("running_mean");
  if (mean == nullptr || !mean->defined() || !parameters.contains("weight")) return;
  const at::ScalarType weights = context.arena_types().weights;
  if (weights == context.arena_types().master) return;  // a module without to() is named by its parameters
  AXONN_CHECK(mean->scalar_type() == weights, kWhere, "buffer '", prefix, "running_mean' is ",
              c10::toString(mean->scalar_type()), ", and in this context the weight is ", c10::toString(weights),
              ", which LibTorch does not take together; make the module an axonn::nn::BatchNorm1d or 2d, which "
              "computes in fp32");
}

class Walk {
 public:
  Walk(const std::vector<std::string>& patterns, const Context& context, const Layers& layers)
      : patterns_(patterns), used_(patterns.size()), context_(context), layers_(layers) {}

  void visit(nn::Module& module, const std::string& prefix, int unit) {
    AXONN_CHECK(dynamic_cast<ShardedModule*>(&module) == nullptr, kWhere, "'", trimmed_dot(prefix),
                "' is a layer of axonn, whose parameters Context::materialize() shards; wrap plain modules only");
    check_not_renormalised(module, prefix);
    check_statistics(module, prefix, context_);
    const auto* member = dynamic_cast<const MemberBase*>(&module);
    AXONN_CHECK(member == nullptr || !member->joined(), kWhere, "'", trimmed_dot(prefix),
                "' was wrapped before; call shard() or parallelize() once per module");
    const bool synchronised = dynamic_cast<const BatchNormBase*>(&module) != nullptr;
    if (auto* typed = dynamic_cast<UnitBase*>(&module)) unit = typed_unit(*typed, trimmed_dot(prefix));
    for (const auto& each : module.named_parameters(/*recurse=*/false)) {
      check_not_stale(module, prefix, each.key(), each.value());
      add(parameters_, prefix + each.key(), each.value(), unit, layer_parameter(module, each.key()));
    }
    for (const auto& each : module.named_buffers(/*recurse=*/false))
      add(found_.module.buffers, prefix + each.key(), each.value(), unit, {}, synchronised);
    auto* sequential = dynamic_cast<nn::SequentialImpl*>(&module);
    size_t index = 0;
    for (const auto& child : module.named_children()) {
      const std::string name = prefix + child.key();
      int of_child = unit;
      if (wanted(name, *child.value(), sequential != nullptr)) {
        of_child = new_unit(name);
        found_.children.push_back({sequential, index, of_child});
      }
      names_.push_back(name);
      visit(*child.value(), name + ".", of_child);
      ++index;
    }
  }

  FoundUnits result() {
    for (size_t i = 0; i < patterns_.size(); ++i)
      AXONN_CHECK(used_[i], kWhere, "no module is named '", patterns_[i],
                  "', which .units has; take names of named_modules()", did_you_mean(patterns_[i], names_));
    std::map<const c10::StorageImpl*, std::string> storages;
    for (FoundTensor& each : parameters_) {
      const std::string& name = each.names.front();
      check_parameter(name, each.tensor, context_);
      const auto [other, alone] = storages.try_emplace(each.tensor.storage().unsafeGetStorageImpl(), name);
      AXONN_CHECK(alone || each.tensor.numel() == 0, kWhere, "parameter '", name, "' shares memory with '",
                  other->second, "' but is another tensor; register a clone() of it");
      auto& list = each.tensor.numel() == 0      ? found_.module.empty
                   : each.tensor.requires_grad() ? found_.module.trained
                                                 : found_.module.frozen;
      list.push_back(std::move(each));
    }
    std::ranges::stable_partition(found_.module.trained, [](const FoundTensor& each) { return !each.layer; });
    AXONN_CHECK(!found_.module.trained.empty(), kWhere,
                "no parameter of the module requires a gradient; call requires_grad_() of those to be trained");
    return std::move(found_);
  }

 private:
  static std::string trimmed_dot(const std::string& prefix) {
    return prefix.substr(0, prefix.size() - !prefix.empty());
  }

  bool wanted(const std::string& name, const nn::Module& child, bool in_sequential) {
    bool named = false;
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (matches(patterns_[i], name)) named = used_[i] = true;
    if (!named || child.parameters().empty() || dynamic_cast<const UnitBase*>(&child) != nullptr ||
        layers_.contains(&child))
      return false;
    AXONN_CHECK(in_sequential, kWhere, "unit '", name,
                "' is in no Sequential, so its forward cannot be seen; make the member an axonn::Unit, or leave it out "
                "of .units");
    return true;
  }

  int new_unit(const std::string& name) {
    found_.module.units.push_back(name);
    return static_cast<int>(found_.module.units.size()) - 1;
  }

  int typed_unit(UnitBase& unit, const std::string& name) {
    const auto known = std::ranges::find(found_.typed, &unit, &std::pair<UnitBase*, int>::first);
    if (known != found_.typed.end()) return known->second;
    found_.typed.emplace_back(&unit, new_unit(name));
    return found_.typed.back().second;
  }

  std::optional<ShardedParameter> layer_parameter(const nn::Module& module, const std::string& key) const {
    const auto layer = layers_.find(&module);
    if (layer == layers_.end()) return {};
    for (const auto& [name, parameter] : layer->second->sharded_parameters())
      if (name == key) return parameter;
    AXONN_ASSERT(false, "a layer without the parameter of the module that it replaces");
    return {};
  }

  static void add(std::vector<FoundTensor>& to, const std::string& name, const at::Tensor& tensor, int unit,
                  const std::optional<ShardedParameter>& layer = {}, bool synchronised = false) {
    if (!tensor.defined()) return;
    const auto known = std::ranges::find_if(to, [&](const FoundTensor& each) { return each.tensor.is_same(tensor); });
    if (known == to.end())
      return to.push_back({{name}, tensor, unit, layer, synchronised, deferred_value(name, tensor)});
    known->names.push_back(name);
    if (known->unit != unit) known->unit = 0;
  }

  const std::vector<std::string>& patterns_;
  std::vector<bool> used_;
  const Context& context_;
  const Layers& layers_;
  std::vector<std::string> names_;  // all modules
  std::vector<FoundTensor> parameters_;
  FoundUnits found_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && pattern.front() == name.front() && matches(pattern.substr(1), name.substr(1));
  return matches(pattern.substr(1), name) || (!name.empty() && name.front() != '.' && matches(pattern, name.substr(1)));
}

FoundUnits find_parameters(nn::Module& module, const std::vector<std::string>& units, const Context& context,
                           const Layers& layers) {
  Walk walk(units, context, layers);
  walk.visit(module, "", 0);
  return walk.result();
}

}  // namespace axonn
