#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include <axonn/comm/environment.hpp>
#include <axonn/core/error.hpp>
#include <axonn/overlap/execute/plan_executor.hpp>
#include <axonn/overlap/execute/rank_tuning.hpp>
#include <axonn/coconet/text/program_text.hpp>
#include <axonn/tune/choice_file.hpp>
#include <axonn/tune/tuner.hpp>
#include <axonn/perfmodel/machine/machine.hpp>

#include "schedule_commands.hpp"

using namespace axonn;
using namespace axonn::coconet;
using namespace axonn::tune;

namespace {

TunerOptions options_of(const Program& program, const ScheduleOptions& options, Communicator& everyone) {
  const int ranks = std::max(1, everyone.size() / program.parts().groups);  // per group
  TunerOptions made{.sizes = sizes_of(program, options, 0), .ranks = ranks, .most_seconds = options.most_seconds};
  made.axes = axes_to_try(everyone);
  if (options.machine.empty()) {
    made.most_guess = std::numeric_limits<double>::infinity();
    return made;
  }
  const Machine machine = find_machine(options.machine);
  made.rates.memory_bytes_per_second = machine.memory_bandwidth_gbps * 1e9;
  made.rates.sent_bytes_per_second = (ranks > 1 ? machine.measured_gbps(1, ranks) : 1) * 1e9;
  made.rates.launch_seconds = machine.levels.back().latency_seconds * 2 * (ranks - 1);
  return made;
}

// Executors on this rank. Zeros stay zeros, and no number takes longer than others.
TunerHooks hooks_of(const Program& program, const ScheduleOptions& options, const TunerOptions& tuning,
                    Environment& environment) {
  const auto scalars = scalars_of(program, options);
  TunerHooks hooks = rank_hooks(environment.world());
  hooks.prepare = [&environment, &tuning, scalars](const SchedulePlan& plan,
                                                   const RunSettings& settings) -> std::function<void()> {
    const auto executor =
        std::make_shared<PlanExecutor>(plan, environment, ExecutorOptions{.sizes = tuning.sizes, .run = settings});
    for (const auto& [scalar, value] : scalars) executor->set(scalar, value);
    executor->clear();
    environment.world().barrier().wait();
    return [executor, &environment] {
      executor->run();
      environment.world().barrier().wait();
    };
  };
  return hooks;
}

std::string text_of(const RunSettings& settings) { return settings == RunSettings() ? "" : ", " + to_string(settings); }

int lines_of(const std::string& text) { return static_cast<int>(std::ranges::count(text, '\n')); }

void print(const TunedSchedule& each, int number) {
  const std::string state(to_string(each.state));
  if (each.state == TunedSchedule::State::timed)
    std::printf("%4d %10.3f ms  %2d launches, %.0f bytes sent, %.0f bytes of memory%s\n", number, each.seconds * 1e3,
                each.counts.launches, each.counts.bytes_sent, each.counts.memory_bytes, text_of(each.settings).c_str());
  else
    std::printf("%4d %13s%s%s\n", number, state.c_str(), each.reason.empty() ? "" : "  ", each.reason.c_str());
  const std::string log = to_text(each.schedule.log());
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = log.find('\n', begin);
    std::printf("       %s\n", log.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
}

void print(const TunerResult& result, const Program& program) {
  using enum TunedSchedule::State;
  for (size_t i = 0; i < result.schedules.size(); ++i) print(result.schedules[i], static_cast<int>(i) + 1);
  std::printf("%s: %zu schedules%s: %d timed, %d run like another, %d refused, %d pruned, %d left out\n",
              program.name().c_str(), result.schedules.size(), result.complete ? "" : " of more", result.count(timed),
              result.count(like_another), result.count(refused), result.count(pruned), result.count(left_out));
  std::printf("%.2f s, of them %.2f s of search; the program has %d lines, the fastest schedule %d more\n",
              result.seconds, result.search_seconds, lines_of(to_text(program)),
              lines_of(to_text(result.best().schedule.log())));
}

void tune_on(Environment& environment, const ProgramFile& file, const ScheduleOptions& options) {
  share_cores(environment);
  const Program& program = file.program;
  const TunerOptions tuning = options_of(program, options, environment.world());
  const bool first = environment.rank() == 0;
  const ChoiceKey key{program, tuning.sizes, environment.ranks(), std::string(environment.transport()),
                      machine_name(environment.local_ranks())};
  const ChoiceFiles choices(options.choices);
  if (!options.choices.empty() && !options.renew) {
    const std::optional<Choice> known = first ? choices.find(key) : std::nullopt;
    if (rank_hooks(environment.world()).agreed(known ? 1 : 0) > 0) {
      if (first)
        std::printf("%s: %.3f ms%s, chosen before (%s)\n%s", program.name().c_str(), known->seconds * 1e3,
                    text_of(known->settings).c_str(), choices.path_of(key).c_str(), to_text(known->log).c_str());
      return;
    }
  }
  PlanExecutor::check_size(SchedulePlan(program), tuning.sizes, tuning.ranks, environment.local_ranks());
  const TunerResult result = tune::tune(program, tuning, hooks_of(program, options, tuning, environment));
  if (!first) return;
  print(result, program);
  if (!options.choices.empty())
    choices.save(key, {result.best().schedule.log(), result.best().seconds, result.best().settings});
}

}  // namespace

int run_tune(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  if (options.threads > 0) {
    run_local(options.threads, [&](Environment& environment) { tune_on(environment, file, options); });
  } else {
    Environment environment;
    tune_on(environment, file, options);
  }
  return 0;
}
