// How the ranking changes with the machine's constants.
#include <algorithm>
#include <iostream>
#include <map>
#include <random>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>

#include "planner_commands.hpp"

namespace {

using axonn::Machine;
using axonn::PlannedLayout;

constexpr int kDraws = 60;
constexpr double kLeast = 0.7, kMost = 1.3;

// Every constant times its own random factor; shares stay at most 1.
Machine perturbed(Machine machine, std::mt19937& random) {
  std::uniform_real_distribution<double> factor(kLeast, kMost);
  for (double* share :
       {&machine.gemm_efficiency, &machine.attention_efficiency, &machine.memory_efficiency, &machine.collective_share})
    *share = std::min(1.0, *share * factor(random));
  machine.kernel_seconds *= factor(random);
  for (axonn::MachineLevel& level : machine.levels) {
    level.bandwidth_gbps *= factor(random);
    const double hops = factor(random);
    level.latency_seconds *= hops;
    level.ll128_latency_seconds *= hops;
    level.tree_latency_seconds *= hops;
  }
  for (axonn::MeasuredBandwidth& row : machine.measured) row.gbps *= factor(random);
  return machine;
}

struct Sensitivity {
  std::map<std::string, int> best;  // how often each grid was the best
  std::vector<double> regrets;      // losses of the plain ranking's best grid, ascending
};

Sensitivity sensitivity_of(const Ranking& ranking) {
  axonn::SearchOptions options = ranking.options;
  options.top = 1;
  std::mt19937 random(1);
  Sensitivity found;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Machine machine = perturbed(ranking.machine, random);
    const PlannedLayout best = search_grids(ranking.network, machine, options).layouts.front();
    const PlannedLayout ours = plan_grid(ranking.network, machine, options, ranking.result.layouts.front().grid);
    ++found.best[best.grid.to_string()];
    found.regrets.push_back(std::max(0.0, ours.value / best.value - 1));
  }
  std::ranges::sort(found.regrets);
  return found;
}

}  // namespace

void print_sensitivity(std::ostream& out, const Ranking& ranking) {
  const Sensitivity found = sensitivity_of(ranking);
  const std::string grid = ranking.result.layouts.front().grid.to_string();
  const auto stays = found.best.find(grid);
  out << "\nsensitivity: every constant of " << ranking.machine.name << " times " << kLeast << " to " << kMost
      << " at random, " << kDraws << " times: " << grid << " is the best "
      << (stays == found.best.end() ? 0 : stays->second) << " times";
  for (const auto& [other, times] : found.best)
    if (other != grid) out << ", " << other << " " << times;
  out << "\n  when another is better, " << grid << " loses: median " << fixed_text(100 * found.regrets[kDraws / 2], 1)
      << "%, worst " << fixed_text(100 * found.regrets.back(), 1) << "%\n";
}

nlohmann::ordered_json sensitivity_json(const Ranking& ranking) {
  const Sensitivity found = sensitivity_of(ranking);
  return {{"draws", kDraws},
          {"least_factor", kLeast},
          {"most_factor", kMost},
          {"best", found.best},
          {"median_regret", found.regrets[kDraws / 2]},
          {"worst_regret", found.regrets.back()}};
}
