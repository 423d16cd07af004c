#include "html/page.hpp"

#include <cerrno>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "html/page_text.hpp"

namespace {

// JSON in ASCII that cannot end the element around it: no "</script>", no "<!--".
std::string script_json(const nlohmann::ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace))
    text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

}  // namespace

void write_page(const std::string& file, const nlohmann::ordered_json& data) {
  constexpr std::string_view kPlace = "{{data}}";
  const std::string_view page = kPageText;
  const size_t place = page.find(kPlace);
  AXONN_ASSERT(place != std::string_view::npos, "page.html has a place for its data");
  std::ofstream out(file, std::ios::binary);
  out << page.substr(0, place) << script_json(data) << page.substr(place + kPlace.size());
  out.close();
  AXONN_CHECK(out, "axonn_config.html", "cannot write ", file, ": ", axonn::reason_and_cure(errno));
}
