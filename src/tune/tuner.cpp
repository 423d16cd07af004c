#include "axonn/tune/tuner.hpp"

#include <algorithm>
#include <set>

#include "axonn/core/error.hpp"
#include "axonn/core/median.hpp"
#include "tune/schedule_key.hpp"

namespace axonn::tune {
namespace {

using State = TunedSchedule::State;
constexpr const char* kWhere = "tune.tuner";
constexpr size_t kFinalists = 3;
constexpr double kRunOff = 1.1;      // share of most_seconds after which no turn begins
constexpr double kMostSearch = 0.5;  // share of most_seconds after which the search ends
constexpr double kWorthIt = 0.97;    // other settings are taken if they are so much faster

class Tuner {
 public:
  Tuner(const TunerOptions& options, const TunerHooks& hooks) : options_(options), hooks_(hooks) {}

  using Search = std::function<ScheduleSpace(const std::function<bool()>& enough)>;

  TunerResult run(const Search& search) {
    start_ = now();
    ScheduleSpace space = search([this] { return passed() > kMostSearch * options_.most_seconds; });
    result_.complete = space.complete;
    for (coconet::Schedule& schedule : space.schedules) result_.schedules.push_back(guessed(std::move(schedule)));
    prune();
    // If the time does not suffice, it is for those that look best.
    std::ranges::stable_sort(result_.schedules, {}, &TunedSchedule::guess);
    result_.search_seconds = passed();
    for (TunedSchedule& each : result_.schedules) {
      if (each.state != State::timed) continue;
      if (best_ > 0 && passed() > options_.most_seconds)
        each.state = State::left_out;
      else
        time(each);
    }
    sort();
    AXONN_CHECK(!result_.schedules.empty() && result_.best().state == State::timed, kWhere, name(),
                ": no executor runs any of its schedules (", first_reason(), "); change the program");
    try_settings();
    run_off();
    result_.seconds = passed();
    return std::move(result_);
  }

 private:
  std::string name() const {
    return result_.schedules.empty() ? "a program" : result_.schedules.front().schedule.program().name();
  }
  size_t finalists() const { return std::min(kFinalists, static_cast<size_t>(result_.count(State::timed))); }
  double now() const { return hooks_.agreed(hooks_.clock()); }
  double passed() const { return now() - start_; }

  TunedSchedule guessed(coconet::Schedule schedule) {
    TunedSchedule made{.schedule = std::move(schedule), .reason = {}, .counts = {}};
    const std::string key = run_key(made.schedule.program());
    if (!key.empty() && !keys_.insert(key).second) {
      made.state = State::like_another;
      return made;
    }
    try {
      made.counts = coconet::SchedulePlan(made.schedule.program()).counts(options_.sizes, options_.ranks);
      made.guess = made.counts.launches * options_.rates.launch_seconds +
                   made.counts.bytes_sent / options_.rates.sent_bytes_per_second +
                   made.counts.memory_bytes / options_.rates.memory_bytes_per_second;
    } catch (const UserError& error) {
      refuse(made, error);
    }
    return made;
  }

  static void refuse(TunedSchedule& schedule, const UserError& error) {
    schedule.state = State::refused;
    schedule.reason = error.sentence();
  }

  void prune() {
    double least = -1;
    for (const TunedSchedule& each : result_.schedules)
      if (each.state == State::timed && (least < 0 || each.guess < least)) least = each.guess;
    for (TunedSchedule& each : result_.schedules)
      if (each.state == State::timed && each.guess > least * options_.most_guess) each.state = State::pruned;
  }

  double seconds_of(const std::function<void()>& run) const {
    const double start = hooks_.clock();
    run();
    return hooks_.agreed(hooks_.clock() - start);
  }

  std::function<void()> prepared(const TunedSchedule& schedule, const coconet::RunSettings& settings) const {
    return hooks_.prepare(coconet::SchedulePlan(schedule.schedule.program()), settings);
  }

  // A run that takes twice the best schedule's time at once is not repeated.
  double median_of(const std::function<void()>& run) const {
    run();
    std::vector<double> seconds;
    while (std::ssize(seconds) < options_.repeats) {
      seconds.push_back(seconds_of(run));
      if ((best_ > 0 && seconds.back() > 2 * best_) || passed() > kRunOff * options_.most_seconds) break;
    }
    return median(seconds);
  }

  void time(TunedSchedule& schedule) {
    try {
      schedule.seconds = median_of(prepared(schedule, schedule.settings));
      if (best_ <= 0 || schedule.seconds < best_) best_ = schedule.seconds;
    } catch (const UserError& error) {
      refuse(schedule, error);
    }
  }

  void sort() {
    std::ranges::stable_sort(result_.schedules, [](const TunedSchedule& a, const TunedSchedule& b) {
      const bool timed = a.state == State::timed;
      if (timed != (b.state == State::timed)) return timed;
      return timed && a.seconds < b.seconds;
    });
  }

  void try_settings() {
    for (size_t i = 0; i < finalists(); ++i) {
      TunedSchedule& schedule = result_.schedules[i];
      try_axis(schedule, options_.axes.threads, &coconet::RunSettings::threads);
      try_axis(schedule, options_.axes.segment_bytes, &coconet::RunSettings::segment_bytes);
      if (has_parts_of_a_product(schedule))
        try_axis(schedule, options_.axes.part_rows, &coconet::RunSettings::part_rows);
    }
    sort();
  }

  template <typename Number>
  void try_axis(TunedSchedule& schedule, const std::vector<Number>& values, Number coconet::RunSettings::* axis) {
    for (const Number value : values) {
      if (passed() > options_.most_seconds) return;
      coconet::RunSettings settings = schedule.settings;
      settings.*axis = value;
      const double seconds = median_of(prepared(schedule, settings));
      if (seconds > kWorthIt * schedule.seconds) continue;
      schedule.seconds = seconds;
      schedule.settings = settings;
    }
  }

  static bool has_parts_of_a_product(const TunedSchedule& schedule) {
    const coconet::SchedulePlan plan(schedule.schedule.program());
    for (size_t i = 1; i < plan.steps().size(); ++i)
      if (plan.steps()[i].by_parts && plan.steps()[i - 1].kind == coconet::StepKind::layer) return true;
    return false;
  }

  // In turns, as times drift.
  void run_off() {
    const size_t finalists = this->finalists();
    if (finalists < 2) return;
    std::vector<std::function<void()>> runs;
    std::vector<std::vector<double>> seconds(finalists);
    for (size_t i = 0; i < finalists; ++i) {
      runs.push_back(prepared(result_.schedules[i], result_.schedules[i].settings));
      runs.back()();
    }
    for (int turn = 0; turn < options_.repeats_of_best; ++turn) {
      if (turn > 0 && passed() > kRunOff * options_.most_seconds) break;
      for (size_t i = 0; i < finalists; ++i) seconds[i].push_back(seconds_of(runs[i]));
    }
    for (size_t i = 0; i < finalists; ++i) result_.schedules[i].seconds = median(seconds[i]);
    std::stable_sort(result_.schedules.begin(), result_.schedules.begin() + static_cast<std::ptrdiff_t>(finalists),
                     [](const TunedSchedule& a, const TunedSchedule& b) { return a.seconds < b.seconds; });
  }

  std::string first_reason() const {
    const auto refused = std::ranges::find(result_.schedules, State::refused, &TunedSchedule::state);
    return refused == result_.schedules.end() ? "none was tried" : refused->reason;
  }

  const TunerOptions& options_;
  const TunerHooks& hooks_;
  TunerResult result_;
  std::set<std::string> keys_;
  double start_ = 0, best_ = 0;
};

}  // namespace

int TunerResult::count(TunedSchedule::State state) const {
  return static_cast<int>(std::ranges::count(schedules, state, &TunedSchedule::state));
}

TunerResult tune(const coconet::Program& program, const TunerOptions& options, const TunerHooks& hooks) {
  return Tuner(options, hooks).run([&](const std::function<bool()>& enough) {
    return schedule_space(program, options.most_schedules, enough);
  });
}

TunerResult tune(ScheduleSpace space, const TunerOptions& options, const TunerHooks& hooks) {
  return Tuner(options, hooks).run([&](const std::function<bool()>&) { return std::move(space); });
}

}  // namespace axonn::tune
