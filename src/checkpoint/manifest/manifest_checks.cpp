#include "checkpoint/manifest/manifest_checks.hpp"

#include <charconv>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "checkpoint.manifest";

}  // namespace

std::string plain_file_name(const std::string& name) {
  AXONN_CHECK(!name.empty() && name.find('/') == std::string::npos, kWhere, "'", name, "' is not a plain file name");
  return name;
}

uint64_t hash_of_hex(const std::string& text) {
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  AXONN_CHECK(error == std::errc() && end == text.data() + text.size(), kWhere, "'", text, "' is no checksum");
  return hash;
}

void check_on_grid(const Manifest& manifest, const Manifest::Part& part) {
  for (const Axis axis : kAxes)
    AXONN_CHECK(part.at[axis] >= 0 && part.at[axis] < manifest.grid[axis], kWhere, manifest.name_of(part), " is of ",
                part.at.to_string(), ", which is not on grid ", manifest.grid.to_string());
}

}  // namespace axonn
