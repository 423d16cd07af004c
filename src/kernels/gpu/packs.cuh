// The common part of kernels for rows of several types: how they read numbers, and the type in
// which they compute.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace axonn {

constexpr int kPackBytes = 16;  // most that a thread reads at once

template <typename Element>
struct WideOf {
  using Type = float;
};
template <>
struct WideOf<double> {
  using Type = double;
};
template <typename Element>
using Wide = typename WideOf<Element>::Type;

template <typename Element, int size>
struct alignas(sizeof(Element) * size) Pack {
  Element element[size];
};

// Calls `pass` with an element of type `type` (fp64, fp32, bf16 or fp16) and the number of elements
// that a thread reads at once, an integral_constant: one where packs of rows of this width that
// begin at `begins` (nullptr: no rows) would not be aligned.
template <typename Pass>
void dispatch(c10::ScalarType type, int64_t width, std::initializer_list<const void*> begins, const Pass& pass) {
  const auto as = [&]<typename Element>(Element element) {
    constexpr int kMost = kPackBytes / sizeof(Element);
    bool aligned = width % kMost == 0;
    for (const void* begin : begins) aligned = aligned && reinterpret_cast<uintptr_t>(begin) % kPackBytes == 0;
    if (aligned)
      pass(element, std::integral_constant<int, kMost>());
    else
      pass(element, std::integral_constant<int, 1>());
  };
  switch (type) {
    case c10::ScalarType::Double:
      return as(double());
    case c10::ScalarType::BFloat16:
      return as(c10::BFloat16());
    case c10::ScalarType::Half:
      return as(c10::Half());
    default:
      return as(float());
  }
}

}  // namespace axonn
