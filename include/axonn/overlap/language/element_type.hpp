#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn::overlap {

// The type in which a tensor's elements are stored, and to which every result of an operation is
// rounded. `boolean` is the result of a comparison; no tensor in memory has it.
enum class ElementType : uint8_t { fp64, fp32, bf16, fp16, boolean };

constexpr int64_t bytes_of(ElementType type) {
  return type == ElementType::fp64 ? 8 : type == ElementType::fp32 ? 4 : 2;
}

}  // namespace axonn::overlap

namespace axonn {

template <>
struct Names<overlap::ElementType> {
  static constexpr Named<overlap::ElementType> all[] = {{"fp64", overlap::ElementType::fp64},
                                                        {"fp32", overlap::ElementType::fp32},
                                                        {"bf16", overlap::ElementType::bf16},
                                                        {"fp16", overlap::ElementType::fp16},
                                                        {"boolean", overlap::ElementType::boolean}};
};

}  // namespace axonn
