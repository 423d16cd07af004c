#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <axonn/config/option_table.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>

#include "options/network_flags.hpp"
#include "options/output_flags.hpp"
#include "options/search_flags.hpp"
#include "options/what_if.hpp"

// Flags of the ranking, explain, launch and export.
class PlannerOptions {
  axonn::OptionTable table_{axonn::OptionTable::Use::flags};  // before the members that are bound to it

 public:
  std::vector<GpuCounts> gpus;
  NetworkFlags network{table_};
  std::string machine = "perlmutter";
  BatchFlags batch;
  RankingFlags ranked;
  TrainingFlags training;
  WhatIfFlags what_ifs;
  GridFlags grids;
  OutputFlags output;
  std::string grid;     // explain, launch, export
  std::string against;  // explain: another grid
  Launcher launcher = Launcher::srun;
  bool verbose = false;

  PlannerOptions();
  void add_flags(CLI::App& app);          // flags of explain and launch
  void add_search_flags(CLI::App& app);   // those, and the flags of the ranking
  void add_fit_flags(CLI::App& app);      // network, machine and --json
  void add_explain_flags(CLI::App& app);  // flags of explain only
  void add_launch_flags(CLI::App& app);   // flags of launch only
  void add_import_flags(CLI::App& app);   // network, machine and --memory-margin

  axonn::SearchOptions search(const axonn::NetworkModel& model) const;  // throws UserError

  WhatIf what_if() const { return what_ifs.parsed(training.optimizer); }  // throws UserError
  void refuse_what_if() const;                                            // for launch
  bool can_be_launched(const axonn::NetworkModel& model) const;           // whether `launch` takes this line
  void refuse_beyond_export() const;  // the rest of --what-if is in what export prints
  // The network; with a pipeline, that of a stage.
  axonn::NetworkModel planned_network() const { return what_if().network(network, training.context); }
  bool has_machine() const { return given("machine"); }
  std::vector<int64_t> counts() const;  // every number of --gpus, ascending; throws UserError

  std::string repeated() const;  // the flags with which another command describes the same job

 private:
  bool given(std::string_view key) const { return table_.source(key) == axonn::OptionTable::Source::flag; }
};
