#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <axonn/core/error.hpp>
#include <axonn/coconet/transform/program_file.hpp>

// The commands of axonn-schedule for a program file. Each returns the exit status.
struct ScheduleOptions {
  std::string file;
  std::string schedule;              // empty: all of the file, and the plain program
  std::vector<std::string> sizes;    // "N=1048576"
  std::vector<std::string> scalars;  // "lr=0.1"
  std::vector<int> ranks = {2, 3, 4};
  int repeats = 10;
  uint64_t seed = 1;
  // tune
  int threads = 0;           // ranks that are threads of this process; 0: the job's ranks
  std::string machine;       // a preset or file; empty: no guesses, so nothing is pruned
  std::string choices;       // folder of the choices; empty: none is kept
  bool renew = false;        // also where a choice is kept
  double most_seconds = 10;  // no further schedule begins after them
};

int run_show(const ScheduleOptions& options);
int run_check(const ScheduleOptions& options);
int run_plan(const ScheduleOptions& options);
int run_cuda(const ScheduleOptions& options);
int run_tune(const ScheduleOptions& options);
int run_run(const ScheduleOptions& options);

// The program and its schedules. An optimizer whose file gives none has the trainer's.
axonn::coconet::ProgramFile load_file(const ScheduleOptions& options);
// The schedules that the options name.
std::vector<std::string> schedules_of(const axonn::coconet::ProgramFile& file, const ScheduleOptions& options);
// The result of `action`. Its UserErrors say of which schedule they are.
template <typename Action>
auto of_schedule(const axonn::coconet::ProgramFile& file, const std::string& schedule, const Action& action) {
  try {
    return action();
  } catch (const axonn::UserError& error) {
    throw axonn::UserError(error.where(), file.place_of(schedule) + ": " + error.sentence());
  }
}
// Values of all sizes of a program; `otherwise` for those without one. UserError if that is 0.
axonn::coconet::SizeValues sizes_of(const axonn::coconet::Program& program, const ScheduleOptions& options,
                                    int64_t otherwise);
// Values of scalars that the file or the options give; 1 for the others.
std::map<std::string, double, std::less<>> scalars_of(const axonn::coconet::Program& program,
                                                      const ScheduleOptions& options);
