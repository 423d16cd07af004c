#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <axonn/config/option_table.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>
#include <axonn/terms/update_schedule.hpp>

#include "options/flag_words.hpp"

// Groups of flags that become axonn::SearchOptions. Each binds its flags and adds its values to the
// options; what it throws is a UserError.

// Samples or tokens per step; neither: the network's usual batch.
struct BatchFlags {
  int64_t samples = 0, tokens = 0;

  void bind(axonn::OptionTable& table);
  int64_t tokens_of(const axonn::NetworkModel& model) const;
};

// How seconds are counted, and what is best. Without `objective`, coefficients `trainer` rank by
// the seconds of a step, and `paper` and `authors` by the seconds of communication, as in the
// paper. Mode exact implies `trainer`, other modes `paper`, and `coefficients` overrides this.
struct RankingFlags {
  std::optional<axonn::BandwidthMode> mode;
  std::optional<axonn::Coefficients> coefficients;
  std::optional<axonn::Objective> objective;
  std::optional<axonn::AxisOrder> order;
  ReductionChoice reduction = ReductionChoice::automatic;
  double memory_margin = 0.08;

  void bind(axonn::OptionTable& table);
  void add_to(axonn::SearchOptions& options) const;

 private:
  axonn::BandwidthMode bandwidths() const;  // `mode`, or what follows from the others
};

// Settings of a job beside its network and batch.
struct TrainingFlags {
  std::vector<axonn::Precision> precisions = {axonn::Precision::bf16};
  axonn::Checkpointing checkpointing = axonn::Checkpointing::automatic;
  axonn::AttentionRows attention_rows = axonn::AttentionRows::off;
  axonn::NormRows norm_rows = axonn::NormRows::off;
  int64_t context = 1;  // ranks of z that divide each sequence, or kAutomaticContext
  int64_t micro_batch = 0;
  axonn::OverlapSwitches overlap;
  axonn::OptimizerKind optimizer = axonn::OptimizerKind::adamw;
  axonn::UpdateSchedule schedule = axonn::UpdateSchedule::ar_opt;

  void bind(axonn::OptionTable& table);
  void add_to(axonn::SearchOptions& options) const;
  bool recomputes_otherwise() const;  // than our programs do
  void refuse_other_recomputation() const;
};

// Limits on the grids that are searched.
struct GridFlags {
  std::vector<FixedAxis> fixed;
  int64_t min_tensor = 1, max_tensor = 0;  // 0: no limit

  void bind(axonn::OptionTable& table);
  void add_to(axonn::SearchOptions& options) const;
};
