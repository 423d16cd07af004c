#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/process_end.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/standard_streams.hpp>
#include <axonn/core/text.hpp>
#include <axonn/core/version.hpp>

#include "measure_machine.hpp"

namespace {

constexpr const char* kAbout =
    R"(Measures the machine that its ranks run on, and writes the file that axonn-config --machine reads.

  mpirun -n 8 axonn-config calibrate --out mine.toml                             8 ranks of this machine
  srun --mpi=pmix --nodes=4 --ntasks-per-node=4 axonn-config calibrate --device cuda --base dgx-h100 --out mine.toml
  axonn-config --machine mine.toml --mode measured --gpus 8 --model gpt-124m     ranks grids with the measurements
)";

struct CommandLine {
  Calibration calibration;
  std::string out = "machine.toml", device = "cpu", bytes = "16M";

  void check() {
    AXONN_CHECK(device == "cpu" || device == "cuda", "axonn_calibrate", "--device is cpu or cuda, got '", device, "'");
    calibration.device = device == "cpu" ? c10::kCPU : c10::kCUDA;
    calibration.bytes = axonn::parse_count(bytes, "--bytes", axonn::Suffixes::binary);
    AXONN_CHECK(calibration.bytes >= 4 && calibration.bytes <= int64_t{1} << 34, "axonn_calibrate",
                "--bytes must be from 4 to 16G, got '", bytes, "'");
    AXONN_CHECK(calibration.repetitions >= 1, "axonn_calibrate", "--repetitions must be at least 1, got ",
                calibration.repetitions);
  }
};

// Every rank measures; only rank 0 prints and writes.
void calibrate(CommandLine& line) {
  axonn::Environment environment;
  const bool first = environment.rank() == 0;
  if (first)
    line.calibration.say = [](const std::string& text) { std::fprintf(stderr, "axonn-calibrate: %s\n", text.c_str()); };
  const std::string machine = machine_toml(measure_machine(environment, line.calibration));
  if (!first) return;
  (void)axonn::parse_machine(machine, line.out);  // checks that the planner can read it
  std::ofstream file(line.out);
  file << "# Measured by axonn-config calibrate on " << environment.ranks() << " ranks, " << environment.local_ranks()
       << " per node.\n"
       << machine;
  AXONN_CHECK(file.flush(), "axonn_calibrate", "cannot write ", line.out, ": ", axonn::reason_and_cure(errno));
  line.calibration.say("wrote " + line.out);
}

int run(int argc, char** argv) {
  CommandLine line;
  CLI::App app(kAbout, "axonn-config calibrate");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.add_option("--out", line.out, "file to write (default: machine.toml)");
  app.add_option("--name", line.calibration.name, "name of the machine (default: calibrated)");
  app.add_option("--base", line.calibration.base,
                 "machine that gives the peaks, memory and price; without it the measured rates are the peaks");
  app.add_option("--device", line.device, "cpu (default) or cuda");
  app.add_option("--bytes", line.bytes, "bytes of the all-reduced buffer (default: 16M)");
  app.add_option("--repetitions", line.calibration.repetitions,
                 "number of measurements, whose median counts (default: 5)");
  axonn::open_standard_streams();
  try {
    if (const auto text = axonn::parse_command_line(app, {argv, static_cast<size_t>(argc)})) {
      std::printf("%s", text->c_str());
    } else {
      line.check();
      calibrate(line);
    }
    axonn::finish_output();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-calibrate: %s\n", axonn::sentence_of(error).c_str());
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) { axonn::end_process(run(argc, argv)); }
