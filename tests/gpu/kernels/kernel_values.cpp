#include "gpu/kernels/kernel_values.hpp"

#include <algorithm>
#include <exception>

#include "gpu/kernels/kernel_memory.hpp"

namespace kernel_test {
namespace {

// In each type no number, or -1: what a kernel reads there spoils its sums.
constexpr std::byte kGuard{0xFF};

}  // namespace

ValueBytes::ValueBytes(std::string name, size_t bytes, size_t element_bytes, size_t skip)
    : name_(std::move(name)),
      bytes_(bytes),
      element_bytes_(element_bytes),
      begin_(guard_bytes() + skip),
      image_(begin_ + bytes + guard_bytes(), kGuard),
      copy_(allocate(image_.size())) {}

ValueBytes::~ValueBytes() {
  try {
    on_host();
  } catch (const std::exception& error) {
    ADD_FAILURE() << name_ << ": " << error.what();
  }
  release(copy_, image_.size());
}

const std::byte* ValueBytes::to_read() {
  if (owner_ == Owner::host) {
    copy_to_kernels(copy_, image_.data(), image_.size());
    owner_ = Owner::reader;
  }
  return copy_ + begin_;
}

std::byte* ValueBytes::to_write() {
  to_read();
  owner_ = Owner::writer;
  return copy_ + begin_;
}

void ValueBytes::fetch() {
  if (kernels_run()) {
    std::vector<std::byte> found(image_.size());
    copy_from_kernels(found.data(), copy_, found.size());
    check(found);
    image_ = std::move(found);
  }
  owner_ = Owner::host;
}

void ValueBytes::check(const std::vector<std::byte>& found) const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  const auto begin = found.begin() + static_cast<int64_t>(begin_), end = begin + static_cast<int64_t>(bytes_);
  if (const int64_t changed = begin - std::find_if_not(found.begin(), begin, is_guard); changed > 0)
    ADD_FAILURE() << name_ << ": written before its begin, as far as " << changed << " bytes before it";
  if (const auto changed = std::find_if_not(end, found.end(), is_guard); changed != found.end())
    ADD_FAILURE() << name_ << ": written behind its end, first " << changed - end << " bytes behind it";
  if (owner_ == Owner::writer) return;
  const auto changed = std::mismatch(begin, end, image_.begin() + static_cast<int64_t>(begin_)).first;
  if (changed != end)
    ADD_FAILURE() << name_ << ": is to be read only, and element "
                  << static_cast<size_t>(changed - begin) / element_bytes_ << " changed";
}

}  // namespace kernel_test
