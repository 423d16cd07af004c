#include "axonn/optim/update_choice.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "axonn/tune/choice_file.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/overlap/execute/network_update.hpp"
#include "axonn/overlap/execute/rank_tuning.hpp"
#include "optim/optimizer_programs.hpp"
#include "optim/program_optimizer.hpp"

namespace axonn {
namespace {

constexpr double kWorthIt = 0.97;  // another schedule than the first is taken if it is so much faster

// Rank 0's, on all ranks.
UpdateChoice shared(Communicator& everyone, const UpdateChoice& choice) {
  at::Tensor numbers = at::tensor({static_cast<int64_t>(choice.schedule), static_cast<int64_t>(choice.run.threads),
                                   choice.run.segment_bytes, choice.run.part_rows});
  everyone.broadcast(numbers, 0).wait();
  const int64_t* in = numbers.const_data_ptr<int64_t>();
  return {static_cast<UpdateSchedule>(in[0]), {static_cast<int>(in[1]), in[2], in[3]}};
}

// Zeros of the same kinds. Sizes of specs are those over the whole grid.
std::shared_ptr<Arena> scratch_arena(const MeasuredUpdate& update) {
  const int64_t z = update.grid.shape().z, all = update.over_z.size() + update.replicated.size();
  const int64_t replicated =
      all <= kMostMeasured ? update.replicated.size() : update.replicated.size() * kMostMeasured / all;
  const int64_t over_z = std::min(update.over_z.size(), kMostMeasured - replicated) * z;
  std::vector<Arena::Entry> entries;
  if (over_z > 0) entries.push_back({"over z", {.dims = {Dim::whole(over_z)}, .over_z = true}, true});
  if (replicated > 0) entries.push_back({"replicated", {.dims = {Dim::whole(replicated)}, .over_z = false}, true});
  auto arena = std::make_shared<Arena>(entries, update.grid, update.rank, update.types, c10::kCPU);
  arena->gradients().fill_(0);  // memory of their own
  return arena;
}

tune::TunerHooks running_hooks(const MeasuredUpdate& update) {
  tune::TunerHooks hooks = rank_hooks(update.communicators[AxisSet::all()]);
  hooks.prepare = [&update](const coconet::SchedulePlan& plan,
                            const coconet::RunSettings& settings) -> std::function<void()> {
    const auto network =
        std::make_shared<NetworkUpdate>(update.communicators, update.grid, update.rank, scratch_arena(update),
                                        update.program, plan.program(), settings, update.policy);
    return [network] { network->step(); };
  };
  return hooks;
}

// The schedules that keep what was planned for a run, schedule_on()'s first.
std::vector<UpdateSchedule> candidates(const OptimizerSettings& settings, const GridShape& grid,
                                       const ContextOptions& options) {
  const UpdateSchedule planned = schedule_on(settings, grid, options);
  if (settings.schedule || planned != UpdateSchedule::fuse) return {planned};
  return {planned, UpdateSchedule::rs_opt_ag};
}

struct OnDisk {
  tune::ChoiceFiles files;
  tune::ChoiceKey key;

  std::optional<UpdateChoice> find(const std::vector<UpdateSchedule>& schedules,
                                   const coconet::UpdateProgram& program) const {
    const auto known = files.find(key);
    if (!known) return {};
    for (const UpdateSchedule schedule : schedules)
      if (program.scheduled(schedule).log() == known->log) return UpdateChoice{schedule, known->settings};
    return {};
  }
};

}  // namespace

std::string UpdateChoice::to_string() const {
  std::string text(axonn::to_string(schedule));
  if (run != coconet::RunSettings()) text += " " + coconet::to_string(run);
  return text;
}

UpdateChoice UpdateChoice::parse(std::string_view text) {
  const size_t end = std::min(text.find(' '), text.size());
  return {parse_name<UpdateSchedule>(text.substr(0, end), "a schedule of the optimizer"),
          coconet::parse_run_settings(text.substr(std::min(end + 1, text.size())))};
}

UpdateChoice tune_update(const MeasuredUpdate& update, const std::vector<UpdateSchedule>& schedules,
                         double most_seconds, const std::optional<tune::TunerHooks>& hooks) {
  tune::ScheduleSpace space;
  for (const UpdateSchedule schedule : schedules) space.schedules.push_back(update.program.scheduled(schedule));
  tune::TunerOptions options{.ranks = update.grid.ranks(),
                             .most_guess = std::numeric_limits<double>::infinity(),
                             .most_seconds = most_seconds,
                             .axes = axes_to_try(update.communicators[AxisSet::all()])};
  for (const std::string& size : update.program.program().parts().sizes) options.sizes[size] = 1;  // no guesses
  const auto result = tune::tune(space, options, hooks ? *hooks : running_hooks(update));
  const auto choice_of = [&](const tune::TunedSchedule& tuned) {
    const auto found = std::ranges::find_if(
        schedules, [&](UpdateSchedule one) { return update.program.scheduled(one).log() == tuned.schedule.log(); });
    return UpdateChoice{*found, tuned.settings};
  };
  UpdateChoice choice = choice_of(result.best());
  for (const tune::TunedSchedule& tuned : result.schedules)
    if (tuned.state == tune::TunedSchedule::State::timed && choice_of(tuned).schedule == schedules.front() &&
        result.best().seconds > kWorthIt * tuned.seconds)
      choice = choice_of(tuned);
  return shared(update.communicators[AxisSet::all()], choice);
}

UpdateChoice choose_update(Context& context, const Parameters& parameters, const OptimizerSettings& settings,
                           const UpdateTuning& tuning) {
  const at::NoGradGuard no_grad;
  const std::vector<UpdateSchedule> schedules = candidates(settings, context.shape(), context.options());
  if (schedules.size() == 1) return {schedules.front()};
  const auto allowed = [&](const std::optional<UpdateChoice>& choice) {
    return choice && std::ranges::count(schedules, choice->schedule) > 0;
  };
  if (tuning.known)
    if (const UpdateChoice known = UpdateChoice::parse(*tuning.known); allowed(known)) return known;
  const Arena& arena = parameters.arena();
  const coconet::UpdateProgram program = running_program(settings, arena.types());
  Communicator& everyone = context.communicators()[AxisSet::all()];
  coconet::SizeValues sizes;
  for (const std::string& size : program.program().parts().sizes) sizes[size] = arena.size();
  const OnDisk disk{tune::ChoiceFiles(tuning.folder),
                    {program.program(), sizes, everyone.size(),
                     "an update on " + context.shape().to_string() + " over " + std::string(everyone.backend()),
                     machine_name(tuning.local_ranks)}};
  const bool kept = !tuning.folder.empty(), first = context.rank() == 0;
  if (kept) {
    const auto found = first ? disk.find(schedules, program) : std::nullopt;
    at::Tensor known = at::tensor({int64_t{found ? 1 : 0}});
    everyone.broadcast(known, 0).wait();
    if (known.item<int64_t>() != 0) return shared(everyone, found.value_or(UpdateChoice()));
  }
  const MeasuredUpdate update{context.communicators(), context.grid(), context.rank(),     program,
                              arena.types(),           arena.over_z(), arena.replicated(), context.options().overlap};
  const UpdateChoice choice = tune_update(update, schedules, tuning.most_seconds, tuning.hooks);
  if (kept)
    all_ranks_or_none(everyone, [&] {
      if (first) disk.files.save(disk.key, {program.scheduled(choice.schedule).log(), 0, choice.run});
    });
  return choice;
}

}  // namespace axonn
