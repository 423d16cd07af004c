#pragma once

#include <cstdint>
#include <string>

#include <axonn/config/option_table.hpp>

// Flags of a ranking's output. `json` and `plot` are flags of other commands, too.
struct OutputFlags {
  int64_t top = 20;
  double knee = 0.8;  // share of the first count's speed per GPU
  bool json = false, csv = false, sensitivity = false;
  std::string plot, measurements, html;

  void bind(axonn::OptionTable& table);
  void add_json(CLI::App& app);
  void add_ranking_flags(CLI::App& app);  // all that are not in the table
};
