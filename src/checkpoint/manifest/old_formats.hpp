#pragma once

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/manifest/manifest.hpp"

// The files of formats 1 to 3: one per rank, whose ranges ("pieces") are listed one by one.
namespace axonn {

// Fills files and parts. UserError if a file lists what it cannot hold.
void read_old_files(const nlohmann::ordered_json& json, Manifest& manifest);

}  // namespace axonn
