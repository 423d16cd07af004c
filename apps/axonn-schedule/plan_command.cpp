#include <cstdio>

#include <axonn/overlap/plan/schedule_plan.hpp>

#include "schedule_commands.hpp"

using namespace axonn::overlap;

int run_plan(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  const SizeValues sizes = sizes_of(file.program, options, 0);
  bool first = true;
  for (const std::string& name : schedules_of(file, options)) {
    const SchedulePlan plan(file.scheduled(name).program());
    for (const int ranks : options.ranks) {
      std::printf("%s# schedule %s\n%s", first ? "" : "\n", name.c_str(), plan.to_text(sizes, ranks).c_str());
      first = false;
    }
  }
  return 0;
}
