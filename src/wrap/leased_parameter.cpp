#include "wrap/leased_parameter.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/network_schedule.hpp"

namespace axonn {
namespace {

c10::Storage storage_of(at::DataPtr memory, size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            std::move(memory), /*allocator=*/nullptr,
                                                            /*resizable=*/false));
}

// Memory that lives as long as `owner`.
template <typename Owner>
at::DataPtr owned(void* memory, Owner owner, c10::Device device) {
  return {memory, new Owner(std::move(owner)), [](void* kept) { delete static_cast<Owner*>(kept); }, device};
}

}  // namespace

c10::Storage make_absent(const at::Tensor& tensor, const std::string& error) {
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  const c10::Storage absent = storage_of(at::DataPtr(nullptr, tensor.device()), bytes);
  absent.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(error);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_allow_tensor_metadata_change(true);
  impl->set_storage_keep_dtype(absent);
  return absent;
}

LeasedParameter::LeasedParameter(at::Tensor whole, ShardedParameter shard, const Arena& arena)
    : tensor_(std::move(whole)), shard_(std::move(shard)), leased_(shard_.slot().sharded_over_z()) {
  const at::Tensor& weights = arena.weights();
  if (tensor_.dtype() != weights.dtype()) tensor_.set_data(at::empty(tensor_.sizes(), weights.options()));
  tensor_.mutable_grad().reset();
  const size_t bytes = static_cast<size_t>(tensor_.numel()) * tensor_.element_size();
  if (!leased_) {
    c10::TensorImpl* impl = tensor_.unsafeGetTensorImpl();
    impl->set_allow_tensor_metadata_change(true);
    whole_ = storage_of(owned(arena.weight(shard_.slot()).mutable_data_ptr(), weights, weights.device()), bytes);
    impl->set_storage_keep_dtype(whole_);
    settle();
    return;
  }
  whole_ = storage_of(at::DataPtr(nullptr, weights.device()), bytes);
  absent_ = make_absent(tensor_, "parameter '" + name() +
                                     "' is sharded by axonn::shard() and not whole here: call forward between "
                                     "context.begin_step() and step.finish() "
                                     "or while parameters.gathered() lives, call a Unit as unit(x), save with "
                                     "axonn::save_state_dict(), and call to() "
                                     "and clone() before shard()");
}

void LeasedParameter::lend(GatheredWeight weight) {
  AXONN_ASSERT(leased_, "'", name(), "' lies in the arena");
  void* memory = weight->mutable_data_ptr();
  whole_.set_data_ptr_noswap(owned(memory, std::move(weight), absent_.device()));
  tensor_.unsafeGetTensorImpl()->set_storage_keep_dtype(whole_);
  settle();
}

void LeasedParameter::drop() {
  if (!leased_) return;
  tensor_.unsafeGetTensorImpl()->set_storage_keep_dtype(absent_);
  whole_.set_data_ptr_noswap(at::DataPtr(nullptr, absent_.device()));
}

void LeasedParameter::end_step() {
  const bool lent = holds(tensor_);
  if (!leased_ || lent || whole_.use_count() == 1) return;
  const size_t bytes = whole_.nbytes();
  whole_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "parameter '" + name() +
      "' is read by the graph of a step that is over; run every backward between context.begin_step() and "
      "step.finish(), with begin_step({.micro_batches = n}) for n of them");
  whole_ = storage_of(at::DataPtr(nullptr, absent_.device()), bytes);
}

bool LeasedParameter::in_place() const {
  const auto* storage = tensor_.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage == whole_.unsafeGetStorageImpl() || (leased_ && storage == absent_.unsafeGetStorageImpl());
}

bool LeasedParameter::holds(const at::Tensor& other) const {
  return other.has_storage() && other.storage().unsafeGetStorageImpl() == whole_.unsafeGetStorageImpl();
}

void LeasedParameter::reduce(const at::Tensor& gradient, NetworkSchedule& schedule) const {
  const at::NoGradGuard no_grad;
  AXONN_CHECK(!gradient.defined() || gradient.layout() == at::kStrided, "wrap.gradient", "the gradient of '", name(),
              "' is sparse, which axonn does not sum; make its Embedding with sparse(false)");
  schedule.reduce_pass(shard_.slot(), gradient);
}

}  // namespace axonn
