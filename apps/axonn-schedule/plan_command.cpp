#include <cstdio>

#include <axonn/coconet/plan/schedule_plan.hpp>

#include "schedule_commands.hpp"

using namespace axonn::coconet;

int run_plan(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  const SizeValues sizes = sizes_of(file.program, options, 0);
  bool first = true;
  for (const std::string& name : schedules_of(file, options)) {
    const Program scheduled = file.scheduled(name).program();
    const SchedulePlan plan = of_schedule(file, name, [&] { return SchedulePlan(scheduled); });
    for (const int ranks : options.ranks) {
      const std::string text = of_schedule(file, name, [&] { return plan.to_text(sizes, ranks); });
      std::printf("%s# schedule %s\n%s", first ? "" : "\n", name.c_str(), text.c_str());
      first = false;
    }
  }
  return 0;
}
