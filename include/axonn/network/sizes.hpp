#pragma once

#include <charconv>
#include <cmath>
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
  // A plain network of the kind does not have it, or always has it: only the help for experts shows
  // it, and a file without such keys is a plain network's.
  bool beyond_plain = false;
  // No program of ours trains another value than a plain network's: the trainer does not accept
  // this key. The planner's files and flags have it.
  bool untrained = false;
};

// plain: the trainer's keys and flags, without those beyond a plain network. trainer: all of them.
// plain_files, trainer_files: the trainer's files as the planner writes them. planner_files: files
// as the planner reads them. planner_flags: the planner's flags.
enum class SizesFor : uint8_t { plain, trainer, plain_files, trainer_files, planner_files, planner_flags };

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
// Members are int64_t, double (positive), bool, or std::vector<int64_t>.
template <typename Shape>
struct Sizes;

inline bool has_key(const SizeTerms& terms, SizesFor whom) {
  if (whom == SizesFor::planner_flags) return true;
  if (terms.planner_only) return false;
  if (whom == SizesFor::planner_files) return true;
  const bool plain = whom == SizesFor::plain || whom == SizesFor::plain_files;
  return !terms.untrained && !(plain && terms.beyond_plain);
}

// Files have keys for words of other sections; see SizeTerms::word.
inline bool has_words(SizesFor whom) { return whom != SizesFor::plain && whom != SizesFor::trainer; }

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

// A size as in a file: {"kv_heads", "8"}, {"tied", "true"}, {"rope_theta", "500000"}.
struct NamedSize {
  std::string name, value;
  std::optional<int64_t> number = {};   // the value, if it is a whole number
  std::optional<double> fraction = {};  // the value, if it is another number
  bool operator==(const NamedSize&) const = default;
};

namespace detail {
// The shortest text that reads back as the same number.
inline std::string shortest(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
}  // namespace detail

// Whether all sizes beyond a plain network are as in a Shape without any.
template <typename Shape>
bool is_plain(const Shape& shape) {
  bool plain = true;
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    plain = plain && (!terms.beyond_plain || shape.*member == Shape().*member);
  });
  return plain;
}

// The sizes that have a key for `whom` and are not 0 or false; of numbers with a fraction, those
// that are not as in a Shape without any.
template <typename Shape>
std::vector<NamedSize> sizes_of(const Shape& shape, SizesFor whom = SizesFor::planner_flags) {
  std::vector<NamedSize> sizes;
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if (!has_key(terms, whom)) return;
    using Size = std::remove_cvref_t<decltype(shape.*member)>;
    std::string value;
    std::optional<int64_t> number;
    std::optional<double> fraction;
    if constexpr (std::is_same_v<Size, bool>)
      value = shape.*member ? "true" : "";
    else if constexpr (std::is_same_v<Size, int64_t>)
      value = shape.*member != 0 ? std::to_string(*(number = shape.*member)) : "";
    else if constexpr (std::is_same_v<Size, double>)
      value = shape.*member != Shape().*member ? detail::shortest(*(fraction = shape.*member)) : "";
    else
      value = join(shape.*member, ",");
    if (!value.empty()) sizes.push_back({std::string(terms.key), std::move(value), number, fraction});
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
    else if constexpr (std::is_same_v<Size, double>)
      AXONN_CHECK(shape.*member > 0 && std::isfinite(shape.*member), std::string(where), terms.key,
                  " must be positive, got ", shape.*member);
    else if constexpr (std::is_same_v<Size, std::vector<int64_t>>)
      for (const int64_t value : shape.*member) check(terms, value, "every one of ");
  });
}

}  // namespace axonn
