#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <axonn/config/option_table.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>
#include <axonn/terms/update_schedule.hpp>

#include "network_flags.hpp"

// The size that an axis must have: "x=4".
struct FixedAxis {
  axonn::Axis axis = axonn::Axis::x;
  int size = 1;
};

// What this trainer does not do, to compare with other programs.
struct WhatIf {
  int64_t stages = 1, virtual_stages = 1;  // a pipeline's
  bool sequence_norms = false, divided_gradients = false, block_messages = false;
  int64_t moment_bytes = 0, logits_chunks = 1;
  axonn::ContextSplit context;

  // What export cannot say.
  bool beyond_export() const {
    return stages > 1 || virtual_stages > 1 || sequence_norms || divided_gradients || moment_bytes > 0 ||
           logits_chunks > 1;
  }
  bool any() const { return beyond_export() || context.ranks > 1 || block_messages; }
};

// Numbers of GPUs: "64", or "8..4096": 8, 16, 32, ... up to 4096.
struct GpuCounts {
  std::vector<int64_t> counts;
};

enum class Launcher : uint8_t { srun, mpirun };
enum class ReductionChoice : uint8_t { automatic, ring };

// Flags of the ranking, explain and launch.
class PlannerOptions {
  axonn::OptionTable table_{axonn::OptionTable::Use::flags};  // before the members that are bound to it

 public:
  std::vector<GpuCounts> gpus;
  NetworkFlags network{table_};
  std::string machine = "perlmutter";
  int64_t batch = 0, batch_tokens = 0;  // samples or tokens; both 0: the network's usual batch
  std::optional<axonn::BandwidthMode> mode;
  std::optional<axonn::Coefficients> coefficients;
  std::optional<axonn::Objective> objective;
  std::optional<axonn::AxisOrder> order;
  std::vector<FixedAxis> fixed;
  int64_t min_tensor = 1, max_tensor = 0;
  std::vector<axonn::Precision> precisions = {axonn::Precision::bf16};
  axonn::Checkpointing checkpointing = axonn::Checkpointing::automatic;
  int64_t micro_batch = 0;
  ReductionChoice reduction = ReductionChoice::automatic;
  axonn::OverlapSwitches overlap;
  axonn::OptimizerKind optimizer = axonn::OptimizerKind::adamw;
  axonn::UpdateSchedule schedule = axonn::UpdateSchedule::ar_opt;
  double memory_margin = 0.08;
  int64_t top = 20;
  double knee = 0.8;  // share of the first count's speed per GPU

  bool json = false, csv = false, sensitivity = false;
  std::string plot, measurements;
  std::string grid;     // explain, launch, export
  std::string against;  // explain: another grid
  Launcher launcher = Launcher::srun;
  bool verbose = false;
  std::string what_ifs;  // a list

  PlannerOptions();
  void add_flags(CLI::App& app);          // flags of explain and launch
  void add_search_flags(CLI::App& app);   // those, and the flags of the ranking
  void add_fit_flags(CLI::App& app);      // network, machine and --json
  void add_explain_flags(CLI::App& app);  // flags of explain only
  void add_launch_flags(CLI::App& app);   // flags of launch only
  void add_import_flags(CLI::App& app);   // network, machine and --memory-margin

  // Throws UserError. Without --objective, coefficients `trainer` rank by the seconds of a step,
  // and `paper` and `authors` by the seconds of communication, as in the paper. Mode exact implies
  // `trainer`, other modes `paper`, and --coefficients overrides this.
  axonn::SearchOptions search(const axonn::NetworkModel& model) const;

  WhatIf what_if() const;                                        // throws UserError
  void refuse_what_if() const;                                   // for launch
  bool can_be_launched(const axonn::NetworkModel& model) const;  // whether `launch` takes this line
  void refuse_beyond_export() const;                             // the rest of --what-if is in what export prints
  // The network; with a pipeline, that of a stage.
  axonn::NetworkModel planned_network() const;
  bool has_machine() const { return given("machine"); }
  std::vector<int64_t> counts() const;  // every number of --gpus, ascending; throws UserError

  std::string repeated() const;  // the flags with which another command describes the same job

 private:
  bool given(std::string_view key) const { return table_.source(key) == axonn::OptionTable::Source::flag; }
  axonn::BandwidthMode bandwidths() const;  // --mode, or what follows from the other flags
  void refuse_ignored() const;
  bool recomputes_otherwise() const;  // than our programs do
  void refuse_other_recomputation() const;
  int64_t tokens_of_batch(const axonn::NetworkModel& model) const;
};
