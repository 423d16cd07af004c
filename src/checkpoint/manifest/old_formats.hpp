#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/manifest/manifest.hpp"

// The files of formats 1 to 3: one per rank, whose ranges ("pieces") are listed one by one.
namespace axonn {

// Fills files and parts. UserError if a file lists what it cannot hold.
void read_old_files(const nlohmann::ordered_json& json, Manifest& manifest);

// For all formats. UserError unless the name is that of a file in the checkpoint's directory.
std::string plain_file_name(const std::string& name);
uint64_t hash_of_hex(const std::string& text);  // UserError unless it is one
void check_on_grid(const Manifest& manifest, const Manifest::Part& part);

}  // namespace axonn
