#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace axonn {

// Facts of an operation of LibTorch that its schema, its tags or its name tell.

bool is_of_autograd(const c10::FunctionSchema& schema);    // computes no values
bool is_uninitialised(const c10::FunctionSchema& schema);  // its results are what lay in memory
bool gives_tensors(const c10::FunctionSchema& schema);     // returned or written
bool is_written(const c10::FunctionSchema& schema, size_t argument);
std::string_view given_name(const c10::FunctionSchema& schema);  // "add" of "aten::add"
// Whether it takes random numbers, given these arguments.
bool draws(const c10::OperatorHandle& operation, const std::vector<c10::IValue>& given);

}  // namespace axonn
