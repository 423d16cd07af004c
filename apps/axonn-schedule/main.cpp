#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/process_end.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/standard_streams.hpp>
#include <axonn/core/version.hpp>

#include "schedule_commands.hpp"

namespace {

constexpr const char* kAbout =
    R"(Programs of computation and communication, and their schedules (docs/coconet.md).

  axonn-schedule show adam.program                                 the program after each schedule
  axonn-schedule check adam.program                                each schedule beside the plain program, in the oracle
  axonn-schedule plan adam.program --schedule fuse --size N=1M     launches, buffers, waits, bytes
  axonn-schedule cuda adam.program --schedule fuse                 its loops as CUDA C++
  mpirun -n 4 axonn-schedule run adam.program --size N=1M          runs each schedule on the CPU, and its time
  axonn-schedule tune adam.program --size N=1M --rank-threads 2    finds the fastest of all legal schedules
)";

std::vector<axonn::Subcommand> add_commands(CLI::App& app, ScheduleOptions& options) {
  CLI::App& show = *app.add_subcommand("show", "the program after a schedule, as text");
  CLI::App& check = *app.add_subcommand("check", "whether a schedule gives the results of the plain program");
  CLI::App& plan = *app.add_subcommand("plan", "how a schedule runs: launches, buffers, waits and bytes");
  CLI::App& cuda = *app.add_subcommand("cuda", "the loops of a schedule as CUDA C++, for NVRTC or nvcc");
  CLI::App& tune = *app.add_subcommand("tune", "runs all legal schedules of the program, and prints their times");
  CLI::App& run = *app.add_subcommand("run", "runs a schedule on all ranks of the job, beside the oracle");
  for (CLI::App* one : {&show, &check, &plan, &cuda, &run, &tune})
    one->add_option("file", options.file, "file with a program and its schedules")->required();
  for (CLI::App* one : {&show, &check, &plan, &cuda, &run}) {
    one->add_option("--schedule", options.schedule, "one schedule, or 'plain'; left out: all");
  }
  for (CLI::App* one : {&check, &plan, &run, &tune})
    one->add_option("--size", options.sizes, "value of a size, such as N=1M; repeat for more");
  for (CLI::App* one : {&check, &run, &tune})
    one->add_option("--set", options.scalars, "value of a scalar, such as lr=0.1; repeat for more");
  for (CLI::App* one : {&check, &plan})
    one->add_option("--ranks", options.ranks, "ranks in the group")
        ->check(axonn::whole_number())
        ->capture_default_str();
  for (CLI::App* one : {&check, &run}) one->add_option("--seed", options.seed, "seed of the tensors' numbers");
  run.add_option("--repeats", options.repeats, "timed runs")->check(axonn::whole_number())->capture_default_str();
  tune.add_option("--rank-threads", options.threads, "ranks as threads of this process, instead of the job's ranks")
      ->check(axonn::whole_number());
  tune.add_option("--machine", options.machine,
                  "preset or file of axonn-calibrate: schedules with more than 4 times the least estimate are not run");
  tune.add_option("--choices", options.choices, "folder that keeps the fastest schedule; known ones are not run again");
  tune.add_flag("--renew", options.renew, "runs all schedules also where a choice is kept");
  tune.add_option("--most-seconds", options.most_seconds, "no further schedule begins after them")
      ->check(axonn::whole_number())
      ->capture_default_str();
  return {{&show, [&] { return run_show(options); }}, {&check, [&] { return run_check(options); }},
          {&plan, [&] { return run_plan(options); }}, {&cuda, [&] { return run_cuda(options); }},
          {&tune, [&] { return run_tune(options); }}, {&run, [&] { return run_run(options); }}};
}

int run_commands(int argc, char** argv) {
  ScheduleOptions options;
  CLI::App app(kAbout, "axonn-schedule");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 1 a schedule differs; 2 an error in the command line or in a file.");
  app.require_subcommand(1);
  return axonn::run_subcommand(app, {argv, static_cast<size_t>(argc)}, add_commands(app, options));
}

int run(int argc, char** argv) {
  axonn::open_standard_streams();
  try {
    const int status = run_commands(argc, argv);
    axonn::finish_output();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-schedule: error: %s\n", axonn::sentence_of(error).c_str());
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) { axonn::end_process(run(argc, argv)); }
