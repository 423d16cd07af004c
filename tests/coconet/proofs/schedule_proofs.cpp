// Random programs under random legal schedules, each equal to its original in the oracle.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/coconet/oracle/oracle.hpp"
#include "axonn/config/command_line.hpp"
#include "axonn/core/error.hpp"
#include "coconet/proofs/all_rules.hpp"
#include "coconet/proofs/executed.hpp"
#include "coconet/proofs/flipped.hpp"
#include "coconet/proofs/proof_table.hpp"
#include "coconet/proofs/random_schedule.hpp"

namespace axonn::coconet::proofs {
namespace {

struct Options {
  int programs = 300;
  uint64_t seed = 1;
  std::string without;
  int64_t least = 0;
  int execute = 0;
  bool verbose = false;
  bool first = false;
};

constexpr std::string_view kEach = "each";
constexpr double kTolerance = 1e-9;
constexpr int kInputs = 3;
constexpr int kTriesPerExecution = 10;  // programs made for the executor per one that is to run

// Three inputs, cuts, blocks and orders, each judged by itself.
Verdict verdict_of(const RandomProgram& random, const Program& scheduled, Dice& dice) {
  Verdict all;
  for (int i = 0; i < kInputs && all.difference.empty(); ++i) {
    // A local part of a sum depends on the cut, so both have one.
    const Cut cut = dice.chance(50) ? Cut::contiguous() : Cut::cyclic(dice.between(1, 3), dice.below(4));
    OracleOptions options{.ranks = random.ranks, .sizes = random.sizes, .cut = cut, .scalars = {}};
    options.seed = dice.seed();
    const OracleInputs inputs = random_inputs(random.program, options, dice.seed());
    const OracleResult expected = run_oracle(random.program, inputs, options);
    options.blocks = dice.between(1, 4);
    options.order = dice.seed();
    const OracleResult got = run_oracle(scheduled, inputs, options);
    const Verdict one = judged(expected, got, kTolerance, has_comparison(random.program), [&](int n) {
      return run_oracle(random.program, with_changes(inputs, 0x1p-52, n), options);
    });
    all.difference = one.difference;
    all.comparisons += one.comparisons;
    all.infinities += one.infinities;
  }
  return all;
}

// Random programs one after the other, and what was found.
class Proofs {
 public:
  // `without`: a rule to leave out, or "".
  Proofs(const Options& options, std::string_view without) : options_(options), guards_{.without = without} {}

  // The exit status.
  int run() {
    const int most = options_.programs + kTriesPerExecution * options_.execute;
    executes_ = options_.execute / 4;
    for (int i = 0; i < options_.programs; ++i)
      if (prove(i, Aim::anything) && options_.first) return stopped(i);
    // Most of the programs above are more than the executor runs: the next ones are made for it.
    const int ran = executions_.ran();
    executes_ = options_.execute;
    for (int i = options_.programs; executions_.ran() < options_.execute && i < most; ++i)
      if (prove(i, Aim::execution) && options_.first) return stopped(i);
    std::printf("%s%d programs compared in the oracle, %d of them made for the executor: %d differ, %d with no legal ",
                table_.to_text().c_str(), compared_, compared_ - options_.programs, differ_, unchanged_);
    std::printf("transformation; the smallest cell has %lld\n", static_cast<long long>(table_.smallest()));
    std::printf("excused elements: of %d programs a comparison that turned, of %d an infinity or a NaN\n", comparisons_,
                infinities_);
    if (options_.execute > 0)
      std::printf("%s%d of the executed programs were made for the executor\n", executions_.to_text().c_str(),
                  executions_.ran() - ran);
    const bool all_ran = executions_.ran() >= options_.execute;
    return differ_ + executions_.differ() == 0 && all_ran && table_.smallest() >= options_.least ? 0 : 1;
  }

  // The number of the first program that differs; -1: none.
  int first_difference() {
    for (int i = 0; i < options_.programs; ++i)
      if (prove(i, Aim::anything)) return i;
    return -1;
  }

 private:
  static int stopped(int program) {
    std::printf("the first program that differs is number %d\n", program);
    return 1;
  }

  // Whether it differs.
  bool prove(int number, Aim aim) {
    Dice dice(options_.seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(number));
    const RandomProgram random = random_program(dice, guards_, aim);
    const RandomSchedule schedule = random_schedule(random, dice, guards_, aim);
    ++compared_;
    unchanged_ += schedule.log.empty() ? 1 : 0;
    const Verdict verdict = verdict_of(random, schedule.program, dice);
    std::string found = verdict.difference;
    comparisons_ += verdict.comparisons > 0 ? 1 : 0;
    infinities_ += verdict.infinities > 0 ? 1 : 0;
    differ_ += found.empty() ? 0 : 1;
    const int ran = executions_.ran();
    if (found.empty() && ran < executes_) found = executions_.compare(random, schedule.program, dice);
    table_.count(random, schedule.program, schedule.log, executions_.ran() > ran);
    const bool prints = differ_ + executions_.differ() <= 3 || options_.verbose;
    if (!found.empty() && prints && options_.without != kEach)
      std::printf("program %d differs on %d ranks: %s\n%s\nafter\n%s\n%s\n", number, random.ranks, found.c_str(),
                  to_text(random.program).c_str(), to_text(schedule.log).c_str(), to_text(schedule.program).c_str());
    return !found.empty();
  }

  const Options& options_;
  const Guards guards_;
  ProofTable table_;
  Executions executions_;
  int executes_ = 0;  // how many are to run so far
  int compared_ = 0, differ_ = 0, unchanged_ = 0;
  int comparisons_ = 0, infinities_ = 0;  // programs with such excused elements
};

// Without a rule some schedule must differ from its original. The exit status.
int run_without(const Options& options) {
  const bool each = options.without == kEach;
  bool shown = true;
  for (const std::string_view rule : each ? all_rules() : std::vector<std::string_view>{options.without}) {
    const std::string name(rule);
    if (const std::string reason(why_unshown(rule)); !reason.empty()) {
      std::printf("%s: no schedule shows it: %s\n", name.c_str(), reason.c_str());
      shown = shown && each;
    } else if (const int program = Proofs(options, rule).first_difference(); program >= 0) {
      std::printf("%s: needed, program %d differs\n", name.c_str(), program);
    } else {
      std::printf("%s: none of %d programs differs\n", name.c_str(), options.programs);
      shown = false;
    }
  }
  return shown ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Transforms random programs by random legal schedules and compares each with its original in the oracle, on "
      "several ranks, cuts and inputs.",
      "schedule_proofs");
  app.add_option("--programs", options.programs, "programs to compare")->check(whole_number())->capture_default_str();
  app.add_option("--seed", options.seed, "seed of everything random")->capture_default_str();
  app.add_option("--least", options.least, "fail if fewer programs than this had some operation, type or rule");
  CLI::Option* execute = app.add_option("--execute", options.execute,
                                        "run programs on rank threads too, until so many ran; more programs are made "
                                        "for it if too few of the others can");
  app.add_option("--without", options.without,
                 "leave this rule out, or each in turn: one program must differ, and shows why the rule is there")
      ->excludes(execute);
  app.add_flag("--verbose", options.verbose, "print every program that differs, not only three");
  app.add_flag("--first", options.first, "end at the first program that differs");
  app.footer("Exit status: 0 proved; 1 not; 2 an error in the command line.");
  if (const auto text = parse_command_line(app, std::span<const char* const>(argv, static_cast<size_t>(argc)))) {
    std::printf("%s", text->c_str());
    return 0;
  }
  return options.without.empty() ? Proofs(options, "").run() : run_without(options);
}

}  // namespace
}  // namespace axonn::coconet::proofs

int main(int argc, char** argv) {
  try {
    return axonn::coconet::proofs::main_of(argc, argv);
  } catch (const axonn::Error& error) {
    std::fprintf(stderr, "schedule_proofs: error: %s\n", error.sentence().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "schedule_proofs: error: %s\n", error.what());
  }
  return 2;
}
