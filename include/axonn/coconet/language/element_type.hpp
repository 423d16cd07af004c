#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn::coconet {

// The type in which a tensor's elements are stored, and to which every result of an operation is
// rounded. `boolean` is the result of a comparison; no tensor in memory has it.
enum class ElementType : uint8_t { fp64, fp32, bf16, fp16, boolean };

constexpr int64_t bytes_of(ElementType type) {
  return type == ElementType::fp64 ? 8 : type == ElementType::fp32 ? 4 : 2;
}

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::ElementType> {
  static constexpr Named<coconet::ElementType> all[] = {{"fp64", coconet::ElementType::fp64},
                                                        {"fp32", coconet::ElementType::fp32},
                                                        {"bf16", coconet::ElementType::bf16},
                                                        {"fp16", coconet::ElementType::fp16},
                                                        {"boolean", coconet::ElementType::boolean}};
};

}  // namespace axonn
