// Reduction programs (P2) on a machine's levels.
#include "reduction_commands.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/perfmodel/machine/machine.hpp>
#include <axonn/perfmodel/reduction/reduction_planner.hpp>
#include <axonn/perfmodel/reduction/reduction_simulator.hpp>
#include <axonn/perfmodel/reduction/reduction_synthesis.hpp>

#include "planner_commands.hpp"

namespace {

using Json = nlohmann::ordered_json;
using axonn::ReductionProgram;

constexpr const char* kWhere = "axonn_config.reduction";

template <typename Enum>
Enum choice(const std::string& text, const char* flag, std::initializer_list<std::pair<const char*, Enum>> names) {
  std::vector<std::string> known;
  std::string all;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    known.emplace_back(name);
    all.append(all.empty() ? "" : ", ").append(name);
  }
  throw axonn::UserError(kWhere,
                         axonn::detail::concatenate(flag, " is one of ", all, ", got '", text, "'", axonn::did_you_mean(text, known)));
}

struct Reduction {
  axonn::ParallelismMatrix matrix;
  axonn::SynthesisHierarchy hierarchy;
  axonn::Network network;
  std::vector<std::string> level_names;  // outermost first
  double bytes = 0;
  axonn::CollectiveAlgorithm algorithm = axonn::CollectiveAlgorithm::ring;

  axonn::ReductionTime time(const ReductionProgram& program) const { return simulate_reduction(network, program, bytes, algorithm); }
  ReductionProgram flat() const { return {{{axonn::Collective::all_reduce, hierarchy.groups}}}; }
};

Reduction reduction_of(const ReductionFlags& flags) {
  const auto machine = axonn::find_machine(flags.machine);
  Reduction reduction;
  reduction.matrix = axonn::parse_parallelism_matrix(flags.matrix);
  const int levels = reduction.matrix.levels;
  AXONN_CHECK(levels <= static_cast<int>(machine.levels.size()), kWhere, "matrix ", flags.matrix, " has ", levels, " levels, machine ",
              machine.name, " has ", machine.levels.size());
  std::vector<int> sizes;
  for (int level = 0; level < levels; ++level) sizes.push_back(reduction.matrix.level_size(level));
  reduction.network = axonn::network_of(machine, sizes);
  for (const axonn::NetworkLevel& level : reduction.network.levels) reduction.level_names.push_back(level.name);
  std::vector<int> axes = flags.reduce;
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(reduction.matrix.axes));
    std::iota(axes.begin(), axes.end(), 0);
  }
  using axonn::AxisCollapse, axonn::CollectiveAlgorithm;
  reduction.hierarchy = synthesis_hierarchy(
      reduction.matrix, axes,
      choice<AxisCollapse>(flags.collapse, "--collapse", {{"hardware", AxisCollapse::hardware}, {"paper", AxisCollapse::paper}}));
  reduction.bytes = static_cast<double>(axonn::parse_count(flags.bytes, "--bytes"));
  reduction.algorithm = choice<CollectiveAlgorithm>(flags.algorithm, "--algorithm",
                                                    {{"ring", CollectiveAlgorithm::ring}, {"tree", CollectiveAlgorithm::tree}});
  return reduction;
}

std::string words(const axonn::InstructionProgram& program, const std::vector<std::string>& levels) {
  std::string text;
  for (const auto& instruction : program) text += (text.empty() ? "" : " ") + to_string(instruction, levels);
  return text;
}

struct Found {
  axonn::InstructionProgram instructions;
  ReductionProgram program;
  double seconds = 0;
};

std::vector<Found> ranked(const Reduction& reduction, const ReductionFlags& flags) {
  using axonn::ReductionGoal, axonn::SynthesisLanguage;
  const axonn::SynthesisOptions options = {
      .language =
          choice<SynthesisLanguage>(flags.language, "--synth", {{"full", SynthesisLanguage::full}, {"paper", SynthesisLanguage::paper}}),
      .goal = choice<ReductionGoal>(flags.goal, "--goal",
                                    {{"all-reduce", ReductionGoal::all_reduce}, {"reduce-scatter", ReductionGoal::reduce_scatter}}),
      .length_limit = flags.limit};
  std::vector<Found> found;
  for (auto& instructions : synthesize(reduction.hierarchy.sizes, options)) {
    ReductionProgram program = lower(instructions, reduction.hierarchy);
    const double seconds = reduction.time(program).seconds;
    found.push_back({std::move(instructions), std::move(program), seconds});
  }
  std::ranges::stable_sort(found, {}, &Found::seconds);
  return found;
}

}  // namespace

void ReductionFlags::add_common(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("matrix", matrix, "rows are axes, columns levels of the machine, outermost first: \"[[2 1] [2 4]]\" or 2x1,2x4")
      ->required();
  app.add_option("--reduce", reduce, "rows to reduce over, from 0 (default: all)")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--machine", machine, "perlmutter (default) or another; its innermost levels are the columns");
  app.add_option("--bytes", bytes, "that each GPU has to reduce (default: 1G)");
  app.add_option("--algorithm", algorithm, "inside a collective: ring (default) or tree");
  app.add_option("--collapse", collapse,
                 "several reduction axes become one by hardware position (hardware, default) or as the paper measured (paper)");
  app.add_flag("--json", json, "JSON");
}

void ReductionFlags::add_to_simulate(CLI::App& app) {
  add_common(app);
  app.add_option("--program", program,
                 "such as reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7 (default: one all-reduce)");
}

void ReductionFlags::add_to_synthesize(CLI::App& app) {
  add_common(app);
  app.add_option("--synth", language, "full (default), or paper: the language that gives the paper's counts");
  app.add_option("--goal", goal, "all-reduce (default) or reduce-scatter");
  app.add_option("--limit", limit, "most collectives of a program (default: 4)")->check(CLI::Range(1, 6));
  app.add_option("--top", top, "programs to print (default: 10)")->check(CLI::PositiveNumber);
}

int run_simulate(const ReductionFlags& flags) {
  const Reduction reduction = reduction_of(flags);
  const ReductionProgram program = flags.program.empty() ? reduction.flat() : axonn::parse_reduction_program(flags.program);
  check_reduction_program(program, reduction.matrix.devices());
  const auto time = reduction.time(program);
  if (flags.json) {
    std::cout << Json{{"program", program.to_string()}, {"seconds", time.seconds}, {"step_seconds", time.step_seconds}}.dump(2) << "\n";
    return 0;
  }
  for (size_t step = 0; step < program.steps.size(); ++step)
    std::cout << "  " << to_string(program.steps[step].collective) << " on " << program.steps[step].groups.size() << " groups of "
              << program.steps[step].groups.front().size() << ": " << fixed_text(time.step_seconds[step], 6) << " s\n";
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
                          {"program", one.program.to_string()},
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
  std::cout << found.size() << " programs of at most " << flags.limit << " collectives; one " << flags.algorithm << " all-reduce takes "
            << fixed_text(flat, 6) << " s\n\n   seconds  speedup  program\n";
  for (const Found& one : std::span(found).first(shown)) {
    const std::string seconds = fixed_text(one.seconds, 6), speedup = fixed_text(flat / one.seconds, 2);
    std::cout << std::string(10 - std::min<size_t>(seconds.size(), 10), ' ') << seconds
              << std::string(9 - std::min<size_t>(speedup.size(), 9), ' ') << speedup << "  "
              << words(one.instructions, reduction.level_names) << "\n";
  }
  return 0;
}
