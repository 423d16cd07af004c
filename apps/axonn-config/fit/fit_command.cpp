// The command fit: a machine's constants from measured runs.
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "fit/measured_groups.hpp"

namespace {

using axonn::ConstantFit;
using axonn::errors_of;
using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "axonn_config.fit";

// The band of predictions with the fitted constants: as wide as runs that the fit did not see need.
double band_of(const ConstantFit& fit, const MeasuredRuns& runs) {
  return runs.size() >= 4 ? errors_of(held_out_ratios(runs)).within_90 : errors_of(ratios_of(fit.machine, runs)).worst;
}

}  // namespace

void FitFlags::add_to_fit(CLI::App& app, PlannerOptions& options) {
  app.add_option("runs", runs,
                 "directories of runs of gpt or unet (their --out); CSV files: columns grid, batch, micro_batch and "
                 "seconds, and precision, checkpointed, layers, hidden, heads, sequence, vocabulary")
      ->required();
  options.add_fit_flags(app);
  app.add_option("--out", out, "machine file to write, with the fitted constants and their band");
}

int run_fit(const FitFlags& flags, const PlannerOptions& line) {
  MeasuredRuns runs;
  for (MeasuredGroup& group : read_groups(flags, line)) std::ranges::move(group.runs, std::back_inserter(runs));
  ConstantFit fit = axonn::fit_constants(runs);
  const axonn::Machine& given = runs.front().machine;
  fit.machine.error_band = band_of(fit, runs);
  const auto before = ratios_of(given, runs), after = ratios_of(fit.machine, runs);
  if (line.output.json) {
    std::cout << Json{{"constants", constants_json(fit)},
                      {"before", errors_json(errors_of(before))},
                      {"after", errors_json(errors_of(after))},
                      {"error_band", fit.machine.error_band}}
                     .dump(2)
              << "\n";
  } else {
    print_runs(runs, after);
    std::cout << "\n" << given.name << ", fitted to " << runs.size() << " runs:\n";
    print_constants(fit);
    std::cout << "before: " << errors_text(errors_of(before)) << "\nafter:  " << errors_text(errors_of(after))
              << "\nband:   " << percent(fit.machine.error_band) << "\n";
  }
  if (flags.out.empty()) return 0;
  fit.machine.name = given.name + " fitted";
  std::ofstream out(flags.out);
  out << machine_toml(fit.machine);
  out.close();
  AXONN_CHECK(out, kWhere, "cannot write ", flags.out, ": ", axonn::reason_and_cure(errno));
  return 0;
}
