#pragma once

#include <string_view>

namespace axonn {

// UserError (name:line) for a letter beyond ASCII outside of strings and comments. toml++ 3.3 has
// undefined behaviour when such a letter stands for a value, a key or a blank
// (is_non_ascii_horizontal_whitespace reaches its "unreachable"). So every TOML text is checked
// before it is parsed.
void check_toml_letters(std::string_view text, std::string_view name);

}  // namespace axonn
