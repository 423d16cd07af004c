#include <cstdio>

#include <axonn/overlap/language/program_text.hpp>

#include "schedule_commands.hpp"

using namespace axonn::overlap;

int run_show(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  bool first = true;
  for (const std::string& name : schedules_of(file, options)) {
    std::printf("%s# schedule %s\n%s", first ? "" : "\n", name.c_str(),
                to_text(file.scheduled(name).program()).c_str());
    first = false;
  }
  return 0;
}
