#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "wrap/check/shadow.hpp"

namespace axonn {

// The arguments of an operation on tensors of which some have a shadow, for the same operation on
// the whole tensors.

using Arguments = std::vector<c10::IValue>;

void visit_tensors(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);
// The same value with other tensors, in lists too.
c10::IValue with_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace);

bool is_written(const c10::FunctionSchema& schema, size_t argument);

// Shadows in the place of their tensors. Tensors without one that the operation writes are copies.
Arguments whole_arguments(const c10::FunctionSchema& schema, const Arguments& local);

// `whole` in other ways: an argument, an element or all of a list, or all arguments may count
// features of this rank, and a tensor without a shadow may have them and the same value for each.
// As many on every rank; nothing where that cannot be here.
std::vector<std::optional<Arguments>> other_whole_arguments(const c10::FunctionSchema& schema, const Arguments& local,
                                                            const Arguments& whole, const SplitOutput& split);

}  // namespace axonn
