#include "wrap/check/whole_arguments.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <ATen/ops/equal.h>

#include "wrap/check/operation_facts.hpp"
#include "wrap/tensors_in.hpp"

namespace axonn {
namespace {

// Places of whole numbers that may count features: the argument, and the element if it is a list.
struct Place {
  size_t argument = 0;
  std::optional<size_t> element;
};

// Other numbers, of groups or of elements to move by, are the program's own.
bool is_size(const c10::Argument& argument) {
  constexpr std::array<std::string_view, 9> kNames = {
      "size", "sizes", "shape", "split_size", "split_sizes", "normalized_shape", "start", "end", "length"};
  return std::ranges::find(kNames, argument.name()) != kNames.end();
}

std::vector<std::vector<Place>> groups_of_places(const c10::FunctionSchema& schema, const Arguments& given) {
  std::vector<std::vector<Place>> groups;
  std::vector<Place> numbers;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!is_size(schema.arguments()[i])) continue;
    if (given[i].isInt()) numbers.push_back({i, {}});
    if (!given[i].isIntList()) continue;
    std::vector<Place> elements;
    for (size_t k = 0; k < given[i].toIntVector().size(); ++k) elements.push_back({i, k});
    for (const Place& each : elements) groups.push_back({each});
    if (elements.size() > 1) groups.push_back(elements);
  }
  for (const Place& each : numbers) groups.push_back({each});
  if (numbers.size() > 1) groups.push_back(numbers);
  return groups;
}

std::optional<Arguments> with_numbers_of_all_ranks(Arguments given, const std::vector<Place>& places,
                                                   const SplitOutput& split) {
  for (const auto& [argument, element] : places) {
    c10::IValue& value = given[argument];
    std::vector<int64_t> numbers = element ? value.toIntVector() : std::vector<int64_t>{value.toInt()};
    int64_t& number = numbers[element.value_or(0)];
    const auto whole = split.on_all_ranks(number);
    if (!whole) return {};
    number = *whole;
    value = element ? c10::IValue(std::move(numbers)) : c10::IValue(number);
  }
  return given;
}

// A tensor of one value along the dim in which `local` is a part of `whole`; nothing if it has
// other sizes or, unless all of it is written, other values there.
std::optional<at::Tensor> constant_on_all_ranks(const at::Tensor& x, const at::Tensor& local, const at::Tensor& whole,
                                                bool is_written_over) {
  for (int64_t from_last = 1; from_last <= std::min(x.dim(), local.dim()); ++from_last) {
    const int64_t here = local.size(-from_last), all = whole.size(-from_last);
    if (here == all || x.size(-from_last) != here || here == 0) continue;
    const at::Tensor first = x.detach().narrow(-from_last, 0, 1);
    if (!is_written_over && !at::equal(first.expand_as(x), x.detach())) return {};
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes[static_cast<size_t>(x.dim() - from_last)] = all;
    return first.expand(sizes).clone();
  }
  return {};
}

}  // namespace

Arguments whole_arguments(const c10::FunctionSchema& schema, const Arguments& local) {
  Arguments result;
  for (size_t i = 0; i < local.size(); ++i)
    result.push_back(with_tensors(local[i], [&](const at::Tensor& x) {
      const Shadow* shadow = shadow_of(x);
      if (shadow != nullptr) return shadow->whole;
      return is_written(schema, i) ? x.detach().clone() : x;
    }));
  return result;
}

std::optional<Arguments> with_constants_of_all_ranks(const c10::FunctionSchema& schema, const Arguments& local,
                                                     const Arguments& whole) {
  Arguments result = whole;
  const at::Tensor* part = nullptr;
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& each : local) visit_tensors(each, [&](const at::Tensor& x) { tensors.push_back(x); });
  for (const at::Tensor& each : tensors)
    if (part == nullptr && shadow_of(each) != nullptr) part = &each;
  bool any = false;
  for (size_t i = 0; i < local.size(); ++i)
    result[i] = with_tensors(whole[i], [&](const at::Tensor& x) {
      const bool is_written_over = i == 0 && schema.name() == "aten::copy_";
      const auto constant = constant_on_all_ranks(x, *part, shadow_of(*part)->whole, is_written_over);
      any |= constant.has_value();
      return constant.value_or(x);
    });
  return any ? std::optional(std::move(result)) : std::nullopt;
}

std::vector<std::optional<Arguments>> with_sizes_of_all_ranks(const c10::FunctionSchema& schema, const Arguments& whole,
                                                              const SplitOutput& split) {
  std::vector<std::optional<Arguments>> result;
  for (const auto& places : groups_of_places(schema, whole))
    result.push_back(with_numbers_of_all_ranks(whole, places, split));
  return result;
}

}  // namespace axonn
