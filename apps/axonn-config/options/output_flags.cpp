#include "options/output_flags.hpp"

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>

void OutputFlags::bind(axonn::OptionTable& table) {
  table.add("search", "top", top, "number of layouts to print (default: 20)");
  table.add("search", "knee", knee,
            "of several counts, the largest with this share of the first one's speed per GPU is named (default: 0.8)");
  table.for_experts({"search.knee"});
}

void OutputFlags::add_json(CLI::App& app) { app.add_flag("--json", json, "print JSON"); }

void OutputFlags::add_ranking_flags(CLI::App& app) {
  const std::string for_experts = axonn::expert_group("Options");
  add_json(app);
  app.add_flag("--csv", csv, "print CSV, one line per layout or count of GPUs")
      ->excludes(app.get_option("--json"))
      ->group(for_experts);
  app.add_flag("--sensitivity", sensitivity, "how often the best stays the best if the machine's constants change")
      ->excludes(app.get_option("--csv"))
      ->group(for_experts);
  app.add_option("--plot", plot, "SVG file to write: the parts of the layouts' steps, or the speed of every count");
  app.add_option("--measurements", measurements,
                 "file for --plot: lines with a grid and its seconds, such as 4x1x16x16,9.87")
      ->needs(app.get_option("--plot"))
      ->group(for_experts);
  app.add_option("--html", html, "page to write: every layout's seconds and memory, to sort and filter in a browser");
}
