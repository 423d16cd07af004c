#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/standard_streams.hpp>
#include <axonn/core/version.hpp>

#include "page/page_file.hpp"
#include "report_data.hpp"
#include "run/run_record.hpp"

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr const char* kAbout =
    R"(Writes a page about training runs: curves, where the time of a step goes, memory, restarts, samples. It
needs no network, neither to be written nor to be read.

  axonn-report runs/a --out report.html              one run
  axonn-report runs/a runs/b                         two, compared
  axonn-report runs/a --watch                        again every 10 seconds, while the run goes on
)";

struct Options {
  std::vector<std::string> runs;
  std::string out = "report.html";
  bool watch = false;
  double every = 10;  // seconds
};

std::atomic<bool> interrupted = false;

void on_signal(int) { interrupted = true; }

// Ends early when a signal comes.
void wait_for(Seconds time) {
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  for (const auto end = Clock::now() + time; !interrupted && Clock::now() < end;)
    std::this_thread::sleep_for(kBetweenLooks);
}

// Whether the page is to be written again.
bool goes_on(const Options& options, const Json& report) {
  const Json& runs = report["runs"];
  return options.watch && !interrupted && std::any_of(runs.begin(), runs.end(), is_running);
}

int write_reports(const Options& options) {
  constexpr double kRest = 10;  // a tenth of a processor at most
  for (bool again = true; again;) {
    const Clock::time_point begin = Clock::now();
    Json report = report_data(options.runs);
    again = goes_on(options, report);
    const Seconds pause = std::max(Seconds(options.every), kRest * Seconds(Clock::now() - begin));
    report["renewed_every"] = again ? Json(pause.count()) : Json(nullptr);
    write_page(options.out, report);
    if (again) wait_for(pause);
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(kAbout, "axonn-report");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 2 an error.");
  app.add_option("runs", options.runs, "directories of runs of gpt or unet")->required();
  app.add_option("--out", options.out, "file to write")->capture_default_str();
  app.add_flag("--watch", options.watch, "writes it again and again, until no run is running or a signal comes");
  app.add_option("--every", options.every, "with --watch: seconds between two writings")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  if (const auto text = axonn::parse_command_line(app, std::span<const char* const>(argv, static_cast<size_t>(argc)))) {
    std::printf("%s", text->c_str());
    return 0;
  }
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
  return write_reports(options);
}

}  // namespace

int main(int argc, char** argv) {
  axonn::open_standard_streams();
  try {
    const int status = run(argc, argv);
    axonn::finish_output();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-report: %s\n", axonn::sentence_of(error).c_str());
  }
  return 2;
}
