#include "config/toml_letters.hpp"

#include <string>

#include "axonn/core/error.hpp"

namespace axonn {

void check_toml_letters(std::string_view text, std::string_view name) {
  char quote = 0;
  bool threefold = false, comment = false;
  int line = 1;
  for (size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto three = [&] { return text.substr(i, 3) == std::string(3, c); };
    if (c == '\n') {
      ++line;
      comment = false;
      if (!threefold) quote = 0;
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] != '\n') {
        ++i;
      } else if (c == quote && (!threefold || three())) {
        i += threefold ? 2 : 0;
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      threefold = three();
      i += threefold ? 2 : 0;
    } else if (c == '#') {
      comment = true;
    } else {
      AXONN_CHECK(static_cast<unsigned char>(c) < 0x80, "config.toml_letters", name, ":", line,
                  ": a letter that is not ASCII may stand only in a string or a comment");
    }
  }
}

}  // namespace axonn
