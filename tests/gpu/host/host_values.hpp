// What tests of kernels on the host share: types, their roundings, and values to compute with.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "gpu/host/host_cuda.hpp"

namespace host_cuda {

template <typename Element>
constexpr c10::ScalarType kType = c10::CppTypeToScalarType<Element>::value;
// Of one rounding, relative to a number.
template <typename Element>
constexpr double kRounding = std::is_same_v<Element, double>          ? 1e-16
                             : std::is_same_v<Element, float>         ? 1.2e-7
                             : std::is_same_v<Element, c10::BFloat16> ? 8e-3
                                                                      : 1e-3;

// Values that begin `skip` elements into their memory, and end with it, as the address sanitizer
// knows.
template <typename Element>
struct Values {
  Values(int64_t count, double phase, int64_t skip_ = 0) : skip(skip_), memory(new Element[skip + count]) {
    for (int64_t i = 0; i < skip + count; ++i)
      memory[i] = static_cast<Element>(static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i))));
  }
  Element* begin() { return memory.get() + skip; }
  double operator[](int64_t i) const { return static_cast<double>(memory[skip + i]); }

  int64_t skip;
  std::unique_ptr<Element[]> memory;
};

}  // namespace host_cuda
