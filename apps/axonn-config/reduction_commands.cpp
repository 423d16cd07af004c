// The commands simulate and synthesize: reduction programs (P2) on a machine's levels.
#include "reduction_commands.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>
#include <axonn/perfmodel/machine/machine.hpp>
#include <axonn/perfmodel/reduction/reduction_planner.hpp>

#include "planner_commands.hpp"

namespace axonn {

template <>
struct Names<AxisCollapse> {
  static constexpr Named<AxisCollapse> all[] = {{"hardware", AxisCollapse::hardware}, {"paper", AxisCollapse::paper}};
};

template <>
struct Names<CollectiveAlgorithm> {
  static constexpr Named<CollectiveAlgorithm> all[] = {{"ring", CollectiveAlgorithm::ring},
                                                       {"tree", CollectiveAlgorithm::tree}};
};

template <>
struct Names<SynthesisLanguage> {
  static constexpr Named<SynthesisLanguage> all[] = {{"full", SynthesisLanguage::full},
                                                     {"paper", SynthesisLanguage::paper}};
};

template <>
struct Names<ReductionGoal> {
  static constexpr Named<ReductionGoal> all[] = {{"all-reduce", ReductionGoal::all_reduce},
                                                 {"reduce-scatter", ReductionGoal::reduce_scatter}};
};

}  // namespace axonn

namespace {

using Json = nlohmann::ordered_json;
using axonn::ReductionProgram;

constexpr const char* kWhere = "axonn_config.reduction";

struct Reduction {
  axonn::ParallelismMatrix matrix;
  axonn::SynthesisHierarchy hierarchy;
  axonn::Network network;
  std::vector<std::string> level_names;  // outermost first
  double bytes = 0;
  axonn::CollectiveAlgorithm algorithm = axonn::CollectiveAlgorithm::ring;

  axonn::ReductionTime time(const ReductionProgram& program) const {
    return simulate_reduction(network, program, bytes, algorithm);
  }
  ReductionProgram flat() const { return {{{axonn::Collective::all_reduce, hierarchy.groups}}}; }
};

Reduction reduction_of(const ReductionFlags& flags) {
  const auto machine = axonn::find_machine(flags.machine);
  Reduction reduction;
  reduction.matrix = axonn::parse_parallelism_matrix(flags.matrix);
  const int levels = reduction.matrix.levels;
  AXONN_CHECK(levels <= static_cast<int>(machine.levels.size()), kWhere, "matrix ", flags.matrix, " has ", levels,
              " levels, machine ", machine.name, " has ", machine.levels.size());
  std::vector<int> sizes;
  for (int level = 0; level < levels; ++level) sizes.push_back(reduction.matrix.level_size(level));
  reduction.network = axonn::network_of(machine, sizes);
  if (flags.copy) reduction.network.memory_bytes_per_second = machine.memory_bandwidth_gbps * 1e9;
  for (const axonn::NetworkLevel& level : reduction.network.levels) reduction.level_names.push_back(level.name);
  std::vector<int> axes(flags.reduce.begin(), flags.reduce.end());
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(reduction.matrix.axes));
    std::iota(axes.begin(), axes.end(), 0);
  }
  reduction.hierarchy = synthesis_hierarchy(reduction.matrix, axes, flags.collapse);
  reduction.bytes = static_cast<double>(flags.bytes);
  reduction.algorithm = flags.algorithm;
  return reduction;
}

std::string words(const axonn::InstructionProgram& program, const std::vector<std::string>& levels) {
  return axonn::join(program, " ", [&](const auto& instruction) { return to_string(instruction, levels); });
}

// Without the groups of ranks: on many GPUs those of all programs together would fill the memory.
struct Found {
  axonn::InstructionProgram instructions;
  double seconds = 0;
};

std::vector<Found> ranked(const Reduction& reduction, const ReductionFlags& flags) {
  const axonn::SynthesisOptions options = {
      .language = flags.language, .goal = flags.goal, .length_limit = static_cast<int>(flags.limit)};
  std::vector<Found> found;
  for (auto& instructions : synthesize(reduction.hierarchy.sizes, options)) {
    const double seconds = reduction.time(lower(instructions, reduction.hierarchy)).seconds;
    found.push_back({std::move(instructions), seconds});
  }
  std::ranges::stable_sort(found, {}, &Found::seconds);
  return found;
}

}  // namespace

ReductionFlags::ReductionFlags() {
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  table_.add("reduction", "reduce", reduce, "rows of the matrix to reduce over, counted from 0 (default: all)",
             {.least = 0, .most = 1 << 20});
  table_.add("reduction", "machine", machine, "machine whose innermost levels are the columns (default: perlmutter)");
  table_.add("reduction", "bytes", bytes, "bytes that each GPU reduces (default: 1G)",
             {.least = 0, .most = kMostBytes, .suffixes = axonn::Suffixes::binary});
  table_.add("reduction", "algorithm", algorithm, "algorithm of a collective: ring (default) or tree");
  table_.add("reduction", "collapse", collapse,
             "how several reduction axes become one: by hardware position (hardware, default) or as the paper measured "
             "(paper)");
  table_.add("reduction", "copy", copy,
             "a program first copies its input in the GPU's memory, as the paper's runs did");
  table_.add("reduction", "json", json, "print JSON");
  table_.add("simulate", "program", program,
             "such as reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7 (default: one all-reduce)");
  table_.add("synthesize", "synth", language, "language: full (default), or paper for the paper's counts");
  table_.add("synthesize", "goal", goal, "goal of a program: all-reduce (default), reduce-scatter");
  table_.add("synthesize", "limit", limit, "maximum number of collectives per program (default: 4)",
             {.least = 1, .most = 6});
  table_.add("synthesize", "top", top, "number of programs to print (default: 10)", {.least = 1});
}

void ReductionFlags::add(CLI::App& app, std::string_view section) {
  app.add_option("matrix", matrix,
                 "rows are axes, columns are levels of the machine, outermost first: \"[[2 1] [2 4]]\" or 2x1,2x4")
      ->required();
  table_.add_flags(app, {"reduction", section});
}

int run_simulate(const ReductionFlags& flags) {
  const Reduction reduction = reduction_of(flags);
  const ReductionProgram program =
      flags.program.empty() ? reduction.flat() : axonn::parse_reduction_program(flags.program);
  check_reduction_program(program, reduction.matrix.devices());
  const auto time = reduction.time(program);
  if (flags.json) {
    std::cout << Json{{"program", program.to_string()},
                      {"seconds", time.seconds},
                      {"copy_seconds", time.copy_seconds},
                      {"step_seconds", time.step_seconds}}
                     .dump(2)
              << "\n";
    return 0;
  }
  if (flags.copy) std::cout << "  copy: " << fixed_text(time.copy_seconds, 6) << " s\n";
  for (size_t step = 0; step < program.steps.size(); ++step)
    std::cout << "  " << to_string(program.steps[step].collective) << " on " << program.steps[step].groups.size()
              << " groups of " << program.steps[step].groups.front().size() << ": "
              << fixed_text(time.step_seconds[step], 6) << " s\n";
  std::cout << "  " << fixed_text(time.seconds, 6) << " s for " << axonn::bytes_text(reduction.bytes) << " on "
            << reduction.matrix.devices() << " GPUs\n";
  return 0;
}

int run_synthesize(const ReductionFlags& flags) {
  const Reduction reduction = reduction_of(flags);
  const auto found = ranked(reduction, flags);
  const double flat = reduction.time(reduction.flat()).seconds;
  const size_t shown = std::min(found.size(), static_cast<size_t>(flags.top));
  if (flags.json) {
    Json programs = Json::array();
    for (const Found& one : std::span(found).first(shown))
      programs.push_back({{"instructions", words(one.instructions, reduction.level_names)},
                          {"program", lower(one.instructions, reduction.hierarchy).to_string()},
                          {"seconds", one.seconds},
                          {"speedup", flat / one.seconds}});
    std::cout << Json{{"matrix", reduction.matrix.to_string()},
                      {"considered", found.size()},
                      {"all_reduce_seconds", flat},
                      {"programs", programs}}
                     .dump(2)
              << "\n";
    return 0;
  }
  std::cout << found.size() << " programs of at most " << flags.limit << " collectives; one "
            << to_string(flags.algorithm) << " all-reduce takes " << fixed_text(flat, 6)
            << " s\n\n   seconds  speedup  program\n";
  for (const Found& one : std::span(found).first(shown)) {
    const std::string seconds = fixed_text(one.seconds, 6), speedup = fixed_text(flat / one.seconds, 2);
    std::cout << std::string(10 - std::min<size_t>(seconds.size(), 10), ' ') << seconds
              << std::string(9 - std::min<size_t>(speedup.size(), 9), ' ') << speedup << "  "
              << words(one.instructions, reduction.level_names) << "\n";
  }
  return 0;
}
