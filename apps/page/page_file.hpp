#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

// A page for a browser: one file that works from a disk. Its data are JSON within it, which its
// script shows. axonn_page() makes the program's text of it, of HTML, styles and scripts.

// Writes the page with `data` in it, by rename: a reader sees the old page or the new one.
// UserError when the file cannot be written.
void write_page(const std::string& file, const nlohmann::ordered_json& data);
