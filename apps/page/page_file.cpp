#include "page/page_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "page/page_text.hpp"

namespace {

namespace fs = std::filesystem;

// JSON in ASCII that cannot end the element around it: no "</script>", no "<!--".
std::string script_json(const nlohmann::ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace))
    text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

// Another kind of file, such as /dev/stdout, is written as it is.
bool can_be_replaced(const fs::path& file) {
  std::error_code ignored;
  return !fs::exists(file, ignored) || fs::is_regular_file(fs::symlink_status(file, ignored));
}

}  // namespace

void write_page(const std::string& file, const nlohmann::ordered_json& data) {
  constexpr std::string_view kPlace = "{{data}}";
  const std::string_view page = kPageText;
  const size_t place = page.find(kPlace);
  AXONN_ASSERT(place != std::string_view::npos, "the page has a place for its data");
  const bool replaced = can_be_replaced(file);
  const std::string written = replaced ? file + ".partial" : file;
  std::ofstream out(written, std::ios::binary);
  out << page.substr(0, place) << script_json(data) << page.substr(place + kPlace.size());
  out.close();
  AXONN_CHECK(out, "page.file", "cannot write ", file, ": ", axonn::reason_and_cure(errno));
  if (replaced) fs::rename(written, file);
}
