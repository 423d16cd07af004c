#pragma once

#include <optional>
#include <vector>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "wrap/check/shadow.hpp"

namespace axonn {

// The arguments of an operation on tensors of which some have a shadow, for the same operation on
// the whole tensors.

using Arguments = std::vector<c10::IValue>;

// Shadows in the place of their tensors. Tensors without one that the operation writes are copies.
Arguments whole_arguments(const c10::FunctionSchema& schema, const Arguments& local);

// `whole`, with tensors without a shadow that have the features of this rank, and the same value
// for each of them; nothing if there are none.
std::optional<Arguments> with_constants_of_all_ranks(const c10::FunctionSchema& schema, const Arguments& local,
                                                     const Arguments& whole);

// `whole` in other ways: a size, some of a list or all of them may count what this rank has. As
// many on every rank; nothing where that cannot be here.
std::vector<std::optional<Arguments>> with_sizes_of_all_ranks(const c10::FunctionSchema& schema, const Arguments& whole,
                                                              const SplitOutput& split);

}  // namespace axonn
