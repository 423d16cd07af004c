#pragma once

#include <exception>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/manifest/manifest.hpp"

namespace axonn {

// The parts of a manifest, until its format and checksum are known to be right.
struct ManifestParts {
  std::vector<Manifest::Part> list;
  std::exception_ptr fault;  // the first of them that cannot be read
};

// The tree of manifest.json. A job of many ranks has a long list of parts: it is empty in the
// tree, and its values go to `parts` as they are read. UserError if the text is no JSON, or nests
// deeper than kMostJsonDepth.
nlohmann::ordered_json manifest_tree(const std::string& text, ManifestParts& parts);

}  // namespace axonn
