#include "axonn/comm/scattered_tensors.hpp"

#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.scattered_tensors";
constexpr int64_t kMostElements = int64_t{1} << 32;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

void check_tensor(const NamedTensor& each, const NamedTensor& first) {
  const auto& [name, tensor] = each;
  AXONN_CHECK(tensor.defined(), kWhere, "'", name, "' is an undefined tensor; give it memory first");
  AXONN_CHECK(tensor.is_cpu(), kWhere, "'", name, "' is on ", tensor.device().str(),
              "; scattered tensors lie on the CPU so far");
  AXONN_CHECK(tensor.is_contiguous(), kWhere, "'", name, "' is not contiguous: sizes ", tensor.sizes(),
              " with strides ", tensor.strides(), "; make it with .contiguous()");
  AXONN_CHECK(tensor.scalar_type() == first.tensor.scalar_type(), kWhere, "'", name, "' is of ",
              c10::toString(tensor.scalar_type()), " and '", first.name, "' of ",
              c10::toString(first.tensor.scalar_type()), "; convert all to one type");
  AXONN_CHECK(tensor.numel() <= kMostElements, kWhere, "'", name, "' has ", tensor.numel(),
              " elements, and a table's offsets reach 2^32; divide it");
}

}  // namespace

ScatteredTensors::ScatteredTensors(std::vector<NamedTensor> tensors, bool numbered) : tensors_(std::move(tensors)) {
  AXONN_CHECK(!tensors_.empty(), kWhere, "there are no tensors; give at least one");
  for (const NamedTensor& each : tensors_) check_tensor(each, tensors_[0]);
  check_apart(tensors_);
  type_ = tensors_[0].tensor.scalar_type();
  element_bytes_ = static_cast<int64_t>(tensors_[0].tensor.element_size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& tensor = tensors_[i].tensor;
    begins_.push_back(size());
    for (int64_t first = 0; first < tensor.numel(); first += kBucket) {
      const int64_t count = std::min(kBucket, tensor.numel() - first);
      addresses_.push_back(bytes_of(tensor));
      offsets_.push_back(static_cast<uint32_t>(first + count - 1));
      if (numbered) numbers_.push_back(static_cast<uint32_t>(i));
    }
  }
}

int64_t ScatteredTensors::table_bytes() const {
  return static_cast<int64_t>(addresses_.size() * sizeof(std::byte*) +
                              (offsets_.size() + numbers_.size()) * sizeof(uint32_t));
}

at::Tensor ScatteredTensors::narrowed(Range run) const {
  const auto after = std::ranges::upper_bound(begins_, run.begin);
  const auto tensor = static_cast<size_t>(after - begins_.begin() - 1);
  return tensors_[tensor].tensor.view(-1).narrow(0, run.begin - begins_[tensor], run.size());
}

void check_apart(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> ascending;
  for (const NamedTensor& each : tensors)
    if (each.tensor.numel() > 0) ascending.push_back(&each);
  std::ranges::sort(ascending, {}, [](const NamedTensor* each) { return bytes_of(each->tensor); });
  for (size_t i = 1; i < ascending.size(); ++i) {
    const NamedTensor &before = *ascending[i - 1], &next = *ascending[i];
    AXONN_CHECK(bytes_of(before.tensor) + before.tensor.nbytes() <= bytes_of(next.tensor), kWhere, "'", before.name,
                "' and '", next.name, "' share memory; give each tensor once, and clone() views");
  }
}

}  // namespace axonn
