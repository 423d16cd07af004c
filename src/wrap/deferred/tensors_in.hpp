#pragma once

#include <utility>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace axonn {

inline bool is_deferred(const at::Tensor& tensor) { return tensor.defined() && tensor.is_meta(); }

// The argument of an operation, with each tensor in it, in lists too, as `map` says.
template <typename Map>
c10::IValue mapped(const c10::IValue& value, const Map& map) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(map(value.toTensor())) : value;
  if (!value.isList()) return value;
  const auto list = value.toList().copy();
  for (size_t i = 0; i < list.size(); ++i) list.set(i, mapped(list.get(i), map));
  return list;
}

template <typename Use>
void each_tensor(const c10::IValue& value, const Use& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) use(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) each_tensor(each, use);
  }
}

}  // namespace axonn
