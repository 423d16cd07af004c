#include "axonn/terms/attention_rows.hpp"

#include <charconv>
#include <cstdio>

#include "axonn/core/error.hpp"

namespace axonn {

std::string AttentionBalance::to_string() const {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g %.17g", x, y);
  return text;
}

AttentionBalance parse_attention_balance(std::string_view text) {
  AttentionBalance balance;
  const char *at = text.data(), *const end = at + text.size();
  bool good = true;
  for (double* value : {&balance.x, &balance.y}) {
    if (value == &balance.y) good = good && at != end && *at++ == ' ';
    const auto [next, error] = std::from_chars(at, end, *value);
    good = good && error == std::errc() && *value >= 0;
    at = next;
  }
  AXONN_CHECK(good && at == end, "terms.attention_rows",
              "a balance of attention is two numbers, such as '0 41.25', got '", text, "'");
  return balance;
}

}  // namespace axonn
