// Why grids are not possible, and what else would be.
#include <algorithm>
#include <iterator>
#include <map>

#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>

#include "output/columns.hpp"
#include "planner_commands.hpp"

namespace {

using axonn::bytes_text;
using axonn::Rejection;

// Whether a grid fits, memory included.
bool any_fits(const Ranking& ranking, axonn::SearchOptions options) {
  options.top = 1;
  return !search_grids(ranking.network, ranking.machine, options).layouts.empty();
}

// The nearest batches that fit, and counts of GPUs. If none fits, those that have a grid, but too
// little memory for it, are named without a flag.
std::string advice_text(const Ranking& ranking) {
  constexpr const char* kShort = "; if there were memory for it, the nearest ";
  const axonn::SearchOptions& options = ranking.options;
  std::string text;
  if (const auto all = nearest_batches(ranking.network, ranking.machine, options); !all.empty()) {
    std::vector<int64_t> batches;
    std::ranges::copy_if(all, std::back_inserter(batches), [&](int64_t batch) {
      axonn::SearchOptions other = options;
      other.batch_tokens = batch * ranking.network.tokens_per_sample;
      return any_fits(ranking, other);
    });
    text += batches.empty()
                ? kShort + ("batches that have one: " + axonn::join(all, " and ")) + " " + ranking.network.samples
                : "; the nearest batches that have one: " + axonn::join(batches, " and ") + " " +
                      ranking.network.samples + " (--batch " + std::to_string(batches.back()) + ")";
  }
  const auto all = nearest_gpu_counts(ranking.network, ranking.machine, options, options.gpus);
  if (all.empty()) return text + "; no count near it has one";
  std::vector<int64_t> counts;
  std::ranges::copy_if(all, std::back_inserter(counts), [&](int64_t count) {
    axonn::SearchOptions other = options;
    other.gpus = count;
    return any_fits(ranking, other);
  });
  const bool fits = !counts.empty();
  if (!fits) counts = all;
  for (int64_t& count : counts) count *= options.stages;  // a user counts the GPUs of all stages
  return text + (fits ? "; the nearest counts that have one: " : kShort + std::string("counts that have one: ")) +
         axonn::join(counts, " and ");
}

// The flag with which a grid fits in the memory: blocks run again, or there are twice as many GPUs,
// or four times, and so on. Empty if neither helps.
std::string memory_advice_text(const Ranking& ranking) {
  axonn::SearchOptions other = ranking.options;
  other.checkpointing = axonn::Checkpointing::on;
  if (ranking.options.checkpointing == axonn::Checkpointing::off && any_fits(ranking, other))
    return "; with --checkpoint on there is memory for one";
  other = ranking.options;
  for (other.gpus *= 2; other.gpus * other.stages <= axonn::kMostGpus; other.gpus *= 2) {
    if (!axonn::fills_levels(ranking.machine, other.gpus)) break;
    const std::string gpus = std::to_string(other.gpus * other.stages);  // a user counts those of all stages
    if (any_fits(ranking, other)) return "; " + gpus + " GPUs have memory for one (--gpus " + gpus + ")";
  }
  return "";
}

}  // namespace

std::string rejections_text(const Ranking& ranking) {
  std::map<std::string, std::vector<const Rejection*>> by_reason;
  for (const Rejection& rejection : ranking.result.rejections) by_reason[rejection.reason].push_back(&rejection);
  std::string text;
  for (auto& [reason, all] : by_reason) {
    text += (text.empty() ? "" : ", ") + std::to_string(all.size());
    if (reason != "memory") {
      text += " with " + reason + " != 0";
      continue;
    }
    std::ranges::stable_sort(all, {}, &Rejection::bytes_over);
    const double usable = ranking.machine.memory_bytes() * (1 - ranking.options.memory_margin);
    text += " over " + bytes_text(usable) + " (closest";
    for (size_t i = 0; i < std::min<size_t>(all.size(), ranking.result.layouts.empty() ? 5 : 1); ++i)
      text += (i == 0 ? " " : ", ") + all[i]->grid.to_string() + " " +
              bytes_text(static_cast<double>(all[i]->bytes_over)) + " too much";
    text += ")";
  }
  return text;
}

// The message when no grid fits, with the closest ones.
std::string nothing_text(const Ranking& ranking) {
  const bool any_in_memory =
      std::ranges::any_of(ranking.result.rejections, [](const Rejection& r) { return r.reason == "memory"; });
  const int64_t stages = ranking.options.stages;
  std::string text = "no grid of " + std::to_string(ranking.options.gpus) + " GPUs" +
                     (stages > 1 ? ", for one of " + std::to_string(stages) + " stages," : "") + " fits " +
                     ranking.network.name + ": " + rejections_text(ranking);
  if (ranking.result.rejections.empty()) text += "none is within the bounds that were asked for";
  return text + (any_in_memory ? memory_advice_text(ranking) : advice_text(ranking));
}
