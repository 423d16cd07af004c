#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

// The tensors among the arguments and results of operations, in lists too.
namespace axonn {

template <typename Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return;
  for (const c10::IValue& each : value.toListRef()) visit_tensors(each, visit);
}

// The same value with other tensors.
template <typename Replace>
c10::IValue with_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor() && value.toTensor().defined()) return at::Tensor(replace(value.toTensor()));
  if (!value.isTensorList() && !value.isOptionalTensorList()) return value;
  c10::List<c10::IValue> list = value.toList().copy();
  for (size_t i = 0; i < list.size(); ++i) list.set(i, with_tensors(list.get(i), replace));
  return list;
}

}  // namespace axonn
