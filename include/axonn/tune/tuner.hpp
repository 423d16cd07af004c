#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/tune/schedule_search.hpp"

namespace axonn::tune {

// The speed of one rank of the machine, for a first guess of a schedule's time.
struct TunerRates {
  double launch_seconds = 0;
  double sent_bytes_per_second = 1;    // per rank, in each direction
  double memory_bytes_per_second = 1;  // read and written, per rank
};

struct TunerOptions {
  coconet::SizeValues sizes;
  int ranks = 1;
  TunerRates rates;
  // A schedule whose guess is so many times the smallest guess is not run.
  double most_guess = 4;
  int repeats = 5;           // timed runs of a schedule; the median counts
  int repeats_of_best = 15;  // the fastest three run again, in turns
  double most_seconds = 10;  // then no schedule begins, but at least one runs; the search has half of it
  size_t most_schedules = 4000;
  // All schedules run with the defaults, the fastest three also with these, one axis after the
  // other. Another value is taken if it saves 3%.
  coconet::RunAxes axes = {};
};

// How schedules run. All ranks of a job call tune() alike, and `agreed` gives all of them one time.
struct TunerHooks {
  // One run of a plan, ready to be called again and again. UserError: no executor runs it.
  std::function<std::function<void()>(const coconet::SchedulePlan&, const coconet::RunSettings&)> prepare;
  std::function<double()> clock;         // seconds
  std::function<double(double)> agreed;  // from each rank's number, one for all, such as the largest
};

struct TunedSchedule {
  enum class State : uint8_t {
    timed,
    like_another,  // an earlier one runs in the same way
    refused,       // no executor runs it: `reason`
    pruned,        // by its guess
    left_out       // the time was over
  };
  coconet::Schedule schedule;
  State state = State::timed;
  std::string reason;
  coconet::PlanCounts counts;  // timed, pruned, left out
  double guess = 0;            // seconds
  double seconds = 0;          // timed
  coconet::RunSettings settings = {};
};

struct TunerResult {
  std::vector<TunedSchedule> schedules;  // timed ones first, the fastest first; then by their guesses
  bool complete = true;                  // whether the search saw all schedules
  double search_seconds = 0, seconds = 0;

  const TunedSchedule& best() const { return schedules.front(); }
  int count(TunedSchedule::State state) const;
};

// Runs all schedules of a program and finds the fastest one. UserError if none runs.
TunerResult tune(const coconet::Program& program, const TunerOptions& options, const TunerHooks& hooks);
// The same of some schedules of a program.
TunerResult tune(ScheduleSpace space, const TunerOptions& options, const TunerHooks& hooks);

}  // namespace axonn::tune

namespace axonn {

template <>
struct Names<tune::TunedSchedule::State> {
  using State = tune::TunedSchedule::State;
  static constexpr Named<State> all[] = {{"timed", State::timed},
                                         {"like another", State::like_another},
                                         {"refused", State::refused},
                                         {"pruned", State::pruned},
                                         {"left out", State::left_out}};
};

}  // namespace axonn
