// Values that kernels read and write in the tests, and how exact they can be.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

namespace kernel_test {

using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;

template <typename Element>
constexpr c10::ScalarType kType = c10::CppTypeToScalarType<Element>::value;
template <typename Element>
constexpr const char* kName = std::is_same_v<Element, double>          ? "fp64"
                              : std::is_same_v<Element, float>         ? "fp32"
                              : std::is_same_v<Element, c10::BFloat16> ? "bf16"
                                                                       : "fp16";
// Of one rounding, relative to a number.
template <typename Element>
constexpr double kRounding = std::is_same_v<Element, double>          ? 1e-16
                             : std::is_same_v<Element, float>         ? 1.2e-7
                             : std::is_same_v<Element, c10::BFloat16> ? 8e-3
                                                                      : 1e-3;

// Number i of some values.
using Fill = std::function<double(int64_t)>;
inline Fill waves(double phase) {
  return [=](int64_t i) { return std::sin(phase + 1.7 * static_cast<double>(i)); };
}
inline Fill all(double number) {
  return [=](int64_t) { return number; };
}

// Bytes on the host, and a copy that kernels work on. The copy begins `skip` bytes behind an
// address that is aligned to 16 bytes; guard bytes, and those of `skip`, must not change.
class ValueBytes {
 public:
  ValueBytes(std::string name, size_t bytes, size_t element_bytes, size_t skip);
  ~ValueBytes();
  ValueBytes(const ValueBytes&) = delete;
  ValueBytes& operator=(const ValueBytes&) = delete;

  // For kernels from now on. Values that they only read must not change.
  const std::byte* to_read();
  std::byte* to_write();
  // The values that kernels left: the host has them again. Failures of the test for bytes that
  // should not have changed.
  std::byte* on_host() {
    if (owner_ != Owner::host) fetch();
    return image_.data() + begin_;
  }

 private:
  enum class Owner { host, reader, writer };

  void fetch();
  void check(const std::vector<std::byte>& found) const;

  std::string name_;
  size_t bytes_, element_bytes_, begin_;
  std::vector<std::byte> image_;  // with all that must not change
  std::byte* copy_;
  Owner owner_ = Owner::host;
};

// Numbers with a name for failures.
template <typename Element>
class Values {
 public:
  Values(std::string name, int64_t count, const Fill& fill, int64_t skip = 0)
      : count_(count), bytes_(std::move(name), count * sizeof(Element), sizeof(Element), skip * sizeof(Element)) {
    for (int64_t i = 0; i < count; ++i) set(i, fill(i));
  }

  const Element* in() { return reinterpret_cast<const Element*>(bytes_.to_read()); }
  Element* out() { return reinterpret_cast<Element*>(bytes_.to_write()); }

  int64_t size() const { return count_; }
  Element at(int64_t i) const {
    Element element;
    std::memcpy(&element, bytes_.on_host() + i * sizeof element, sizeof element);
    return element;
  }
  double operator[](int64_t i) const { return static_cast<double>(at(i)); }
  void set(int64_t i, double number) {
    Element element;
    if constexpr (sizeof(Element) < sizeof(float) && !std::is_integral_v<Element>)
      element = static_cast<Element>(static_cast<float>(number));
    else
      element = static_cast<Element>(number);
    std::memcpy(bytes_.on_host() + i * sizeof element, &element, sizeof element);
  }
  // For comparing bit by bit.
  std::vector<std::byte> bits() const { return {bytes_.on_host(), bytes_.on_host() + count_ * sizeof(Element)}; }

 private:
  int64_t count_;
  mutable ValueBytes bytes_;
};

}  // namespace kernel_test
