#include "wrap/check/operation_facts.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include <ATen/core/enum_tag.h>

namespace axonn {
namespace {

// They change what autograd does with a tensor, and no values.
constexpr std::array<std::string_view, 4> kOfAutograd = {"aten::_backward", "aten::requires_grad_", "aten::retain_grad",
                                                         "aten::set_data"};

// Their results are what lay in memory.
constexpr std::array<std::string_view, 3> kUninitialised = {"aten::empty_like", "aten::new_empty",
                                                            "aten::new_empty_strided"};

bool is_one_of(std::span<const std::string_view> names, const c10::FunctionSchema& schema) {
  return std::ranges::find(names, schema.name()) != names.end();
}

}  // namespace

bool is_of_autograd(const c10::FunctionSchema& schema) { return is_one_of(kOfAutograd, schema); }

bool is_uninitialised(const c10::FunctionSchema& schema) { return is_one_of(kUninitialised, schema); }

bool gives_tensors(const c10::FunctionSchema& schema) {
  return schema.is_mutable() || std::ranges::any_of(schema.returns(), [](const c10::Argument& each) {
           return each.type()->str().find("Tensor") != std::string::npos;
         });
}

bool is_written(const c10::FunctionSchema& schema, size_t argument) {
  return schema.is_mutable(c10::SchemaArgument(c10::SchemaArgType::input, argument));
}

std::string_view given_name(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.substr(name.find("::") + 2);
}

// Dropout that drops nothing draws nothing.
bool draws(const c10::OperatorHandle& operation, const std::vector<c10::IValue>& given) {
  if (!operation.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const auto& arguments = operation.schema().arguments();
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = arguments[i].name();
    if ((name == "p" || name == "dropout_p") && given[i].isDouble() && given[i].toDouble() == 0) return false;
    if ((name == "train" || name == "training") && given[i].isBool() && !given[i].toBool()) return false;
  }
  return true;
}

}  // namespace axonn
