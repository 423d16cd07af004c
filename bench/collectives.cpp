// collectives: the table of nccl-tests for axonn's collectives, beside MPI's blocking and
// non-blocking ones in the same run.
//   scripts/mpirun -n 4 build/release/bin/collectives --min 1M --max 64M
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include <CLI/CLI.hpp>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "collectives_measure.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;

struct Options {
  std::string min = "64k", max = "16M";
  std::vector<std::string> kinds = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  std::string dtype = "fp32";
  int repetitions = 0;  // 0: depends on the size
  double wire_mbit = 0;
  bool overlap = false;
};

int repetitions(const Options& options, int64_t bytes) {
  if (options.repetitions > 0) return options.repetitions;
  return static_cast<int>(std::clamp<int64_t>((int64_t{64} << 20) / std::max<int64_t>(bytes, 1), 7, 101));
}

void print_header(const Environment& environment, const Options& options) {
  std::printf("# axonn collectives: %d ranks, transport %.*s; medians of interleaved repetitions\n",
              environment.ranks(), static_cast<int>(environment.transport().size()), environment.transport().data());
  std::printf(
      "# algbw = bytes / time; busbw = algbw x 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter and all-gather, 1 "
      "for broadcast\n");
  std::printf(
      "# ratio = time of the better of MPI's two forms / ours; hidden = (t_comm + t_compute - t_both) / t_comm, "
      "computation as long\n");
  if (options.wire_mbit > 0)
    std::printf("# wire = bytes that each node must send / (time x %.0f Mbit/s)\n", options.wire_mbit);
  std::printf("%-14s %10s %10s %5s | %10s %7s %7s %6s | %10s %10s %6s", "collective", "bytes", "count", "type",
              "time us", "algbw", "busbw", "errors", "MPI us", "MPI-nb us", "ratio");
  if (options.wire_mbit > 0) std::printf(" | %5s", "wire");
  if (options.overlap) std::printf(" | %10s %6s %6s", "both us", "hidden", "MPI-nb");
  std::printf("\n");
}

void print_row(const Case& c, const Times& t, const Options& options) {
  const double algbw = static_cast<double>(c.bytes()) / t.ours / 1e9;
  const double better = std::min(t.mpi_blocking, t.mpi_nonblocking);
  std::printf("%-14s %10lld %10lld %5s | %10.1f %7.3f %7.3f %6lld | %10.1f %10.1f %6.2f", c.name().c_str(),
              static_cast<long long>(c.bytes()), static_cast<long long>(c.count()), options.dtype.c_str(), t.ours * 1e6,
              algbw, algbw * c.bus_factor(), static_cast<long long>(t.errors), t.mpi_blocking * 1e6,
              t.mpi_nonblocking * 1e6, better / t.ours);
  if (options.wire_mbit > 0)
    std::printf(" | %5.2f", static_cast<double>(c.bytes()) * c.bus_factor() * 8 / t.ours / (options.wire_mbit * 1e6));
  if (options.overlap) std::printf(" | %10.1f %5.0f%% %5.0f%%", t.both * 1e6, 100 * t.hidden, 100 * t.hidden_mpi);
  std::printf("\n");
  std::fflush(stdout);
}

int run(const Options& options) {
  Environment environment;
  AXONN_CHECK(environment.ranks() > 1, "bench.collectives",
              "needs at least 2 ranks; start it with scripts/mpirun -n 4");
  if (environment.rank() == 0) print_header(environment, options);
  const int64_t smallest = parse_count(options.min, "--min", Suffixes::binary),
                largest = parse_count(options.max, "--max", Suffixes::binary);
  int64_t errors = 0;
  for (const std::string& kind : options.kinds)
    for (int64_t bytes = smallest; bytes <= largest; bytes *= 4) {
      Case c(environment, kind, options.dtype, bytes);
      const Times times = measure(c, repetitions(options, bytes), options.overlap);
      errors += times.errors;
      if (environment.rank() == 0) print_row(c, times, options);
    }
  return errors == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("axonn's collectives beside MPI's");
  app.add_option("--min", options.min, "smallest message in bytes (k, M, G)");
  app.add_option("--max", options.max, "largest message in bytes; sizes grow by a factor of 4");
  app.add_option("--collective", options.kinds, "collectives to measure")
      ->check(CLI::IsMember({"all-reduce", "reduce-scatter", "all-gather", "broadcast"}));
  app.add_option("--dtype", options.dtype, "element type")->check(CLI::IsMember({"fp64", "fp32"}));
  app.add_option("--repetitions", options.repetitions, "repetitions of each measurement; 0: depends on the size");
  app.add_option("--wire-mbit", options.wire_mbit,
                 "rate of a node's link, to print the share that is used (with one rank per node)");
  app.add_flag("--overlap", options.overlap, "also measure the share that computation hides");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collectives: %s\n", error.what());
    return 1;
  }
}
