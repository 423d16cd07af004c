#include <cstdio>

#include <axonn/coconet/text/program_text.hpp>

#include "schedule_commands.hpp"

using namespace axonn::coconet;

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
