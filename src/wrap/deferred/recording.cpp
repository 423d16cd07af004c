#include "wrap/deferred/recording.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "axonn/core/error.hpp"
#include "wrap/tensors_in.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.on_meta";
using Key = const c10::StorageImpl*;

Key key_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// Another view of the same storage, which nobody else changes, registers or trains.
at::Tensor view_of(const at::Tensor& tensor) {
  return at::Tensor(
      tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(/*version_counter=*/0, /*allow_metadata_change=*/true));
}

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

class Recording::Memory {
 public:
  at::Tensor operator()(const at::Tensor& deferred) const {
    if (!is_deferred(deferred)) return deferred;
    const auto storage = storages_.find(key_of(deferred));
    AXONN_ASSERT(storage != storages_.end(), "a recorded operation uses what no operation has made");
    return at::empty({0}, at::TensorOptions().dtype(deferred.dtype()))
        .set_(storage->second, deferred.storage_offset(), deferred.sizes(), deferred.strides());
  }

  void made(const at::Tensor& deferred, const at::Tensor& real, const std::string& op) {
    if (storages_.contains(key_of(deferred))) return;
    AXONN_CHECK(real.scalar_type() == deferred.scalar_type(), kWhere, "'", op, "' makes ",
                c10::toString(real.scalar_type()), " in shard(), and made ", c10::toString(deferred.scalar_type()),
                " in on_meta(); call torch::set_default_dtype() before on_meta()");
    AXONN_ASSERT(real.sizes() == deferred.sizes(), "'", op, "' makes other sizes on the device meta");
    at::Tensor laid = real;
    if (real.strides() != deferred.strides() || real.storage_offset() != deferred.storage_offset()) {
      const int64_t before = deferred.storage_offset();
      const auto elements = static_cast<int64_t>(deferred.storage().nbytes() / deferred.element_size());
      laid = at::empty({elements}, real.options()).as_strided(deferred.sizes(), deferred.strides(), before);
      laid.copy_(real);
    }
    storages_.emplace(key_of(deferred), laid.storage());
  }

  void free(Key storage) { storages_.erase(storage); }

 private:
  std::map<Key, c10::Storage> storages_;
};

void Recording::add(const c10::OperatorHandle& op, const std::vector<c10::IValue>& inputs,
                    const std::vector<c10::IValue>& outputs) {
  Operation operation{.op = op, .inputs = {}, .outputs = {}, .used = {}, .changed = {}, .given = {}, .generator = {}};
  const auto keep = [&](const c10::IValue& value, bool is_changed) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      if (!is_deferred(tensor)) return operation.given.emplace_back(tensor, tensor._version()), void();
      operation.used.push_back(key_of(tensor));
      if (is_changed || !has(tensor)) operation.changed.push_back(key_of(tensor));
    });
    return with_tensors(value, [](const at::Tensor& tensor) { return is_deferred(tensor) ? view_of(tensor) : tensor; });
  };
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    operation.inputs.push_back(keep(inputs[i], alias != nullptr && alias->isWrite()));
  }
  for (const c10::IValue& each : outputs) operation.outputs.push_back(keep(each, false));
  if (operation.changed.empty()) return;  // a view
  for (const Key key : operation.used) last_use_[key] = operations_.size();
  if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    at::Tensor state = generator_state();
    if (!generator_.defined() || !generator_.equal(state)) operation.generator = state;
    generator_ = std::move(state);
  }
  operations_.push_back(std::move(operation));
}

bool Recording::has(const at::Tensor& tensor) const { return last_use_.contains(key_of(tensor)); }

void Recording::run(const Operation& operation, Memory& memory) {
  const std::string& name = operation.op.schema().name();
  for (const auto& [tensor, version] : operation.given)
    AXONN_CHECK(static_cast<uint32_t>(tensor._version()) == version, kWhere, "'", name,
                "' of a constructor reads a tensor that has changed since; change a clone(), or make it without a "
                "device");
  if (operation.generator.defined()) set_generator_state(operation.generator);
  torch::jit::Stack stack;
  for (const c10::IValue& input : operation.inputs) stack.push_back(with_tensors(input, memory));
  operation.op.callBoxed(stack);
  std::vector<at::Tensor> real;
  for (const c10::IValue& output : stack)
    visit_tensors(output, [&](const at::Tensor& tensor) { real.push_back(tensor); });
  auto next = real.begin();
  for (const c10::IValue& output : operation.outputs)
    visit_tensors(output, [&](const at::Tensor& tensor) { memory.made(tensor, *next++, name); });
}

// All operations, where their values are wanted; else those that the wanted tensors depend on.
std::vector<bool> Recording::needed(const std::vector<at::Tensor>& wanted) const {
  std::vector<bool> needed(operations_.size(), initial_ == MetaValues::drawn);
  std::set<Key> depends;
  for (const at::Tensor& each : wanted) depends.insert(key_of(each));
  for (size_t i = operations_.size(); i-- > 0;) {
    const Operation& each = operations_[i];
    if (std::ranges::none_of(each.changed, [&](Key key) { return depends.contains(key); })) continue;
    needed[i] = true;
    depends.insert(each.used.begin(), each.used.end());
  }
  return needed;
}

std::vector<size_t> Recording::order(const std::vector<at::Tensor>& wanted) const {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return last_use_.at(key_of(wanted[i])); });
  return order;
}

void Recording::replay(const std::vector<at::Tensor>& wanted,
                       const std::function<void(size_t, const at::Tensor&)>& take) const {
  const at::NoGradGuard no_grad;
  const at::Tensor before = generator_state();
  const std::vector<size_t> in_order = order(wanted);
  const std::vector<bool> runs = needed(wanted);
  auto next = in_order.begin();
  Memory memory;
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& each = operations_[i];
    if (runs[i]) run(each, memory);
    for (; next != in_order.end() && last_use_.at(key_of(wanted[*next])) == i; ++next)
      take(*next, memory(wanted[*next]));
    for (const Key key : each.used)
      if (last_use_.at(key) == i) memory.free(key);
  }
  // A generator that has drawn since on_meta() goes on from there.
  if (generator_.defined() && !generator_.equal(before)) set_generator_state(before);
}

namespace {

struct Mark final : c10::BackendMeta {
  Mark(std::shared_ptr<const Recording> made_by, uint32_t at_version)
      : recording(std::move(made_by)), version(at_version) {}
  std::shared_ptr<const Recording> recording;
  uint32_t version;
};

const Mark* mark_of(const at::Tensor& tensor) {
  return dynamic_cast<const Mark*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

}  // namespace

void mark_recorded(const at::Tensor& tensor, std::shared_ptr<const Recording> recording) {
  if (mark_of(tensor) != nullptr) return;
  const auto version = static_cast<uint32_t>(tensor._version());
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Mark>(std::move(recording), version));
}

std::optional<DeferredValue> deferred_value(const std::string& name, const at::Tensor& tensor) {
  if (!is_deferred(tensor)) return {};
  const Mark* mark = mark_of(tensor);
  const bool as_made =
      mark != nullptr && mark->recording->has(tensor) && static_cast<uint32_t>(tensor._version()) == mark->version;
  AXONN_CHECK(as_made, kWhere, "'", name,
              "' has no memory, and is not as axonn::on_meta() left it, but was written, converted or registered "
              "elsewhere; call to(), torch::nn::init and register_parameter() in the function that on_meta() gets");
  return DeferredValue{mark->recording, view_of(tensor)};
}

void settle_on(const at::Tensor& deferred, c10::Device device, bool with_memory) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions().dtype(deferred.dtype()).device(device);
  const at::Tensor real = with_memory ? at::empty(deferred.sizes(), options) : at::empty({0}, options);
  c10::TensorImpl* impl = deferred.unsafeGetTensorImpl();
  if (!with_memory) {
    real.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(
        c10::Storage::use_byte_size_t(), deferred.storage().nbytes(), at::DataPtr(nullptr, device), nullptr, false));
    real.unsafeGetTensorImpl()->set_sizes_and_strides(deferred.sizes(), deferred.strides());
  }
  impl->set_allow_tensor_metadata_change(true);
  impl->shallow_copy_from(real.getIntrusivePtr());
}

}  // namespace axonn
