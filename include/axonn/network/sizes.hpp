#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"
#include "axonn/network/presets.hpp"

// A network's sizes are described once, by a specialisation of Sizes for its struct. Flags, TOML
// input and output, presets, overrides, limits, the sizes in a checkpoint and the planner's flags
// follow from it.
namespace axonn {

// For a size that has no key of its own in a trainer's file: another key's word switches it on or
// off.
struct FileWord {
  std::string_view section, key, off, on;  // [diffusion] loss = "simple" or "hybrid"
};

// For a size that may come from the data: `number` means so, and the planner takes `assumed` when a
// trainer's file has that number.
struct FromData {
  int64_t number, assumed;
};

struct SizeTerms {
  std::string_view key;  // key in [model] of files: learned_variance; as a flag --learned-variance
  std::string_view help;
  int64_t least = 1;  // limit of a whole number, or of each number in a list
  int64_t most = std::numeric_limits<int64_t>::max();
  std::optional<FromData> from_data = {};
  Suffixes suffixes = Suffixes::decimal;  // tokens: binary
  // The trainer does not accept this key: the size follows from the data, or from `word`.
  bool planner_only = false;
  std::optional<FileWord> word = {};
  // No program of ours trains another value than a GPT-2's: the trainer does not accept this key.
  // The planner's files and flags have it.
  bool untrained = false;
};

// trainer: the trainer's keys and flags. trainer_files: the trainer's files as the planner writes
// them. planner_files: files as the planner reads them. planner_flags: the planner's flags.
enum class SizesFor : uint8_t { trainer, trainer_files, planner_files, planner_flags };

// struct Sizes<DecoderShape> {
//   static constexpr std::string_view kNetwork = "transformer";
//   static std::span<const Preset<DecoderShape>> presets();
//   // Sizes where a file or the flags have only these keys, and no preset.
//   static DecoderShape base(std::span<const std::string> keys);
//   template <typename Visit>
//   static void visit(const Visit& size) {  // one call per member
//     size(SizeTerms{.key = "layers", .help = "transformer blocks"}, &DecoderShape::layers);
//   }
// };
// Members are int64_t, bool, or std::vector<int64_t>.
template <typename Shape>
struct Sizes;

inline bool has_key(const SizeTerms& terms, SizesFor whom) {
  if (whom == SizesFor::planner_flags) return true;
  return !terms.planner_only && (whom == SizesFor::planner_files || !terms.untrained);
}

template <typename Shape>
std::vector<std::string> size_keys(SizesFor whom) {
  std::vector<std::string> keys;
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto) {
    if (has_key(terms, whom)) keys.emplace_back(terms.key);
  });
  return keys;
}

// "gpt-tiny, gpt-124m, ..."
template <typename Shape>
std::string preset_names() {
  return join(Sizes<Shape>::presets(), ", ", [](const Preset<Shape>& preset) { return preset.name; });
}

// A size as in a file: {"kv_heads", "8"}, {"tied", "true"}.
struct NamedSize {
  std::string name, value;
  std::optional<int64_t> number = {};  // the value, if it is a whole number
  bool operator==(const NamedSize&) const = default;
};
// The sizes that are not 0 or false and have a key for `whom`.
template <typename Shape>
std::vector<NamedSize> sizes_of(const Shape& shape, SizesFor whom = SizesFor::planner_flags) {
  std::vector<NamedSize> sizes;
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if (!has_key(terms, whom)) return;
    std::string value;
    std::optional<int64_t> number;
    if constexpr (std::is_same_v<decltype(shape.*member), const bool&>)
      value = shape.*member ? "true" : "";
    else if constexpr (std::is_same_v<decltype(shape.*member), const int64_t&>)
      value = shape.*member != 0 ? std::to_string(*(number = shape.*member)) : "";
    else
      value = join(shape.*member, ",");
    if (!value.empty()) sizes.push_back({std::string(terms.key), std::move(value), number});
  });
  return sizes;
}

// UserError "hidden must be at most 1048576, got 9999999" unless every size is within its limits.
// `where` names the function at fault.
template <typename Shape>
void check_sizes(const Shape& shape, std::string_view where) {
  const auto check = [&](const SizeTerms& terms, int64_t value, std::string_view each) {
    AXONN_CHECK(value >= terms.least, std::string(where), each, terms.key, " must be ",
                terms.least == 1 ? "positive" : detail::concatenate("at least ", terms.least), ", got ", value);
    AXONN_CHECK(value <= terms.most, std::string(where), each, terms.key, " must be at most ", terms.most, ", got ",
                value);
  };
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    using Size = std::remove_cvref_t<decltype(shape.*member)>;
    if constexpr (std::is_same_v<Size, int64_t>)
      check(terms, shape.*member, "");
    else if constexpr (std::is_same_v<Size, std::vector<int64_t>>)
      for (const int64_t value : shape.*member) check(terms, value, "every one of ");
  });
}

}  // namespace axonn
