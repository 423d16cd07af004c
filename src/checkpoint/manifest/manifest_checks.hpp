#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest/manifest.hpp"

// Checks of the values of a manifest, the same in all formats. Failures are UserErrors.
namespace axonn {

std::string plain_file_name(const std::string& name);  // a file in the checkpoint's directory
uint64_t hash_of_hex(const std::string& text);
void check_on_grid(const Manifest& manifest, const Manifest::Part& part);

}  // namespace axonn
