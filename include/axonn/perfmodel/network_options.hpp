#pragma once

#include <algorithm>
#include <string_view>

#include "axonn/config/option_table.hpp"
#include "axonn/core/error.hpp"
#include "axonn/network/sizes.hpp"

namespace axonn {

// A network's sizes as options. Sizes (network/sizes.hpp) defines their names and limits once.

// Binds a size that a word in another section of the file turns on.
inline TextValue bind_word(bool& on, const FileWord& word) {
  return {.print = [&on, word] { return std::string(on ? word.on : word.off); },
          .parse =
              [&on, word](std::string_view text, std::string_view what, bool store) {
                AXONN_CHECK(text == word.on || text == word.off, "perfmodel.network", what, " must be one of ",
                            word.off, ", ", word.on, ", got '", text, "'");
                if (store) on = text == word.on;
              },
          .type = "TEXT"};
}

// Adds the sizes to `section` of the table; those beyond a plain network are for experts.
// Limits are checked when a value is read.
template <typename Shape>
void bind_sizes(OptionTable& table, std::string_view section, Shape& shape, SizesFor whom) {
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    auto& size = shape.*member;
    if (!has_key(terms, whom)) {
      if constexpr (std::is_same_v<decltype(size), bool&>)
        if (terms.word && has_words(whom))
          table.add_text(terms.word->section, terms.word->key, bind_word(size, *terms.word), terms.help);
      return;
    }
    const bool may_follow_data = terms.from_data && whom != SizesFor::planner_flags;
    const Whole whole{.least = may_follow_data ? std::min(terms.least, terms.from_data->number) : terms.least,
                      .most = terms.most,
                      .suffixes = terms.suffixes};
    if constexpr (std::is_same_v<decltype(size), bool&> || std::is_same_v<decltype(size), double&>)
      table.add(section, terms.key, size, terms.help);
    else
      table.add(section, terms.key, size, terms.help, whole);
    if (terms.beyond_plain) table.for_experts({std::string(section) + "." + std::string(terms.key)});
  });
}

// Takes from `preset` the sizes that neither a flag nor a file set.
template <typename Shape>
void fill_from_preset(const OptionTable& table, Shape& shape, const Shape& preset) {
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if (has_key(terms, SizesFor::trainer) && table.source(terms.key) == OptionTable::Source::fallback)
      shape.*member = preset.*member;
  });
}

// Takes from `given` the sizes that a flag set.
template <typename Shape>
void override_sizes(const OptionTable& table, Shape& shape, const Shape& given) {
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if (table.source(terms.key) == OptionTable::Source::flag) shape.*member = given.*member;
  });
}

}  // namespace axonn
