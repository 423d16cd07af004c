#include "axonn/wrap/on_meta.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "axonn/core/error.hpp"
#include "wrap/deferred/recording.hpp"
#include "wrap/tensors_in.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.on_meta";
constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;  // LibTorch leaves it to others
thread_local Recording* current = nullptr;

// The argument that says on which device an operation without tensors makes its result.
c10::IValue* device_argument(const c10::OperatorHandle& op, c10::IValue* arguments) {
  const auto index = op.schema().argumentIndexWithName("device");
  if (!index) return nullptr;
  c10::IValue& device = arguments[*index];
  return device.isNone() || (device.isDevice() && device.toDevice().is_meta()) ? &device : nullptr;
}

void record(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard suspended(kKey);
  const size_t count = op.schema().arguments().size();
  c10::IValue* const arguments = stack->data() + (stack->size() - count);
  std::vector<c10::IValue> inputs(arguments, arguments + count);
  bool deferred = false, has_tensors = false;
  for (const c10::IValue& each : inputs)
    visit_tensors(each, [&](const at::Tensor& tensor) {
      has_tensors = true;
      deferred = deferred || is_deferred(tensor);
    });
  if (c10::IValue* device = has_tensors ? nullptr : device_argument(op, arguments)) {
    inputs[static_cast<size_t>(device - arguments)] = c10::IValue();
    *device = c10::Device(c10::kMeta);
    deferred = true;
  }
  const std::string& name = op.schema().name();
  AXONN_CHECK(deferred || !op.hasTag(at::Tag::nondeterministic_seeded), kWhere, "'", name,
              "' of a constructor draws random numbers now, and others are drawn in shard(), so that they would not be "
              "those of the plain program; make its tensor without a device");
  try {
    op.callBoxed(stack);
  } catch (const c10::Error& error) {
    if (!deferred) throw;
    throw UserError(kWhere, detail::concatenate("'", name,
                                                "' of a constructor reads values that are not there before "
                                                "shard() (",
                                                error.what_without_backtrace(),
                                                "); make the tensor with a device, torch::kCPU, or do this after "
                                                "shard()"));
  }
  if (!deferred) return;
  const size_t results = op.schema().returns().size();
  current->add(op, inputs, {stack->end() - static_cast<ptrdiff_t>(results), stack->end()});
  // Writing through a pointer to memory that is not there is LibTorch's error then, not a crash.
  for (size_t i = stack->size() - results; i < stack->size(); ++i)
    visit_tensors((*stack)[i], [](const at::Tensor& tensor) {
      tensor.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
    });
}

}  // namespace

TORCH_LIBRARY_IMPL(_, DeferredInit, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&record>()); }

OnMeta::OnMeta(MetaValues initial) {
  if (current != nullptr) return;
  recording_ = std::make_shared<Recording>(initial);
  current = recording_.get();
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

OnMeta::~OnMeta() {
  if (recording_ == nullptr) return;
  c10::impl::tls_set_dispatch_key_included(kKey, false);
  current = nullptr;
}

void OnMeta::made(torch::nn::Module& module) const {
  if (recording_ == nullptr) return;
  const c10::impl::ExcludeDispatchKeyGuard suspended(kKey);
  for (const auto& list : {module.parameters(), module.buffers()})
    for (const at::Tensor& each : list)
      if (is_deferred(each)) mark_recorded(each, recording_);
}

}  // namespace axonn
