#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/tune/tuner.hpp"
#include "axonn/comm/communicators.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"

namespace axonn {

// How the update of a run is divided among its replicas, and how it runs.
struct UpdateChoice {
  UpdateSchedule schedule = UpdateSchedule::ar_opt;
  coconet::RunSettings run = {};

  std::string to_string() const;  // "fuse", or "rs-opt-ag threads=2 segment=16384"
  // Parses a result of to_string(). UserError for any other text.
  static UpdateChoice parse(std::string_view text);
  bool operator==(const UpdateChoice&) const = default;
};

// An update that is measured. All outlive the call.
struct MeasuredUpdate {
  Communicators& communicators;
  const Grid& grid;
  int rank = 0;
  const coconet::UpdateProgram& program;  // as it runs, with the types of the arena
  ArenaTypes types = {};
  Range over_z = {}, replicated = {};  // elements of this rank in both parts of the arena (Arena)
  OverlapPolicy policy = {};
};

// A run's choice is measured on zeros in memory of their own, at most so many elements per rank:
// the times of larger updates have the same ratios.
inline constexpr int64_t kMostMeasured = int64_t{1} << 22;

// The first schedule, unless another one is faster by 3%, or other settings are. Every rank of the
// grid calls it, and all get rank 0's result. `hooks` are a test's; without them the update runs.
UpdateChoice tune_update(const MeasuredUpdate& update, const std::vector<UpdateSchedule>& schedules,
                         double most_seconds, const std::optional<tune::TunerHooks>& hooks = {});

struct UpdateTuning {
  std::optional<std::string> known = {};  // the checkpoint's, as to_string() wrote it
  std::filesystem::path folder = {};      // keeps choices for later runs (ChoiceFiles); empty: none does
  int local_ranks = 1;
  double most_seconds = 2;
  std::optional<tune::TunerHooks> hooks = {};
};

// The choice of a run. Settings that name a schedule are obeyed. If replicas do not share the
// update (schedule_on()), it is ar_opt, and nothing is measured. Otherwise it is what a checkpoint
// or a file knows, or it is measured: among schedules that divide the state, so that memory is what
// was planned, and that know the norm before they change weights. The bits are those of any other
// choice. Every rank of the grid calls it, and all get the same.
UpdateChoice choose_update(Context& context, const Parameters& parameters, const OptimizerSettings& settings,
                           const UpdateTuning& tuning);

}  // namespace axonn
