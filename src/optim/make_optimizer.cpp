#include "axonn/optim/make_optimizer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/core/error.hpp"
#include "optim/optimizer_programs.hpp"
#include "optim/program_optimizer.hpp"
#include "optim/rule.hpp"

namespace axonn {
namespace {

std::vector<std::pair<std::string, double>> all_scalars(const OptimizerSettings& settings) {
  return {{"beta1", settings.beta1},
          {"beta2", settings.beta2},
          {"epsilon", settings.epsilon},
          {"momentum", settings.momentum}};
}

// A user's program has settings of its own: these would change nothing.
void refuse_unused(const OptimizerSettings& settings) {
  const auto defaults = all_scalars({}), given = all_scalars(settings);
  for (size_t i = 0; i < given.size(); ++i)
    AXONN_CHECK(given[i].second == defaults[i].second, "optim.settings", settings.file,
                " has settings of its own: use --optimizer-set ", given[i].first, "=", given[i].second, ", not --",
                given[i].first);
}

}  // namespace

void check_optimizer(const OptimizerSettings& settings) {
  for (const auto& [value, name] : {std::pair(settings.learning_rate, "learning_rate"),
                                    {settings.weight_decay, "weight_decay"},
                                    {settings.epsilon, "epsilon"}})
    AXONN_CHECK(!(value < 0), "optim.settings", name, " must be at least 0, got ", value);
  for (const auto& [value, name] : {std::pair(settings.beta1, "beta1"),
                                    {settings.beta2, "beta2"},
                                    {settings.momentum, "momentum"},
                                    {settings.ema, "ema"}})
    AXONN_CHECK(value >= 0 && value < 1, "optim.settings", name, " must be in [0, 1), got ", value);
  if (!settings.file.empty()) refuse_unused(settings);
}

int optimizer_moments(const OptimizerSettings& settings) {
  if (settings.file.empty()) return optimizer_moments(settings.kind);
  const coconet::SchedulePlan plan(optimizer_program(settings).scheduled().program());
  // Tensors of all elements, apart from gradients and weights.
  const auto counts = [&](const coconet::PlanBuffer& buffer) {
    const coconet::Shape& shape = buffer.type.shape;
    return shape.size() == 2 && !shape[1].is_one();
  };
  return static_cast<int>(std::ranges::count_if(plan.buffers(), counts)) - 2;
}

// A user's program gives its own values.
std::vector<std::pair<std::string, double>> optimizer_scalars(const OptimizerSettings& settings) {
  return settings.file.empty() ? all_scalars(settings) : std::vector<std::pair<std::string, double>>();
}

UpdateSchedule schedule_on(const OptimizerSettings& settings, const GridShape& grid, const ContextOptions& options) {
  if (settings.schedule) return *settings.schedule;
  const bool shared = grid.data > 1 && options.device.is_cpu() && options.gradient_programs.empty();
  if (!shared) return UpdateSchedule::ar_opt;
  const coconet::UpdateProgram program = optimizer_program(settings);
  const bool after_norm = (settings.clips ? program : program.without_factor()).updates_after_norm();
  return after_norm ? UpdateSchedule::fuse : UpdateSchedule::rs_opt_ag;
}

std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters,
                                          const OptimizerSettings& settings) {
  check_optimizer(settings);
  OptimizerSettings scheduled = settings;
  scheduled.schedule = schedule_on(settings, context.shape(), context.options());
  const bool divided = divides(*scheduled.schedule);
  if (context.options().device.is_cpu()) {
    AXONN_CHECK(!divided || context.options().gradient_programs.empty(), "optim.program", "schedule ",
                to_string(*scheduled.schedule),
                " sums gradients itself: leave --reduction out, or choose --optimizer-schedule ar-opt");
    return std::make_unique<ProgramOptimizer>(updated_network(context, parameters), scheduled);
  }
  const bool plain = settings.file.empty() && settings.set.empty() && !divided;
  AXONN_CHECK(plain, "optim.make_optimizer",
              "programs of optimizers and their schedules run on CPUs only so far, not on ",
              context.options().device.str());
  std::unique_ptr<Optimizer> made;
  constexpr const auto& kKinds = Names<OptimizerKind>::all;
  [&]<size_t... i>(std::index_sequence<i...>) {
    ((settings.kind == kKinds[i].value ? void(made = make_rule<kKinds[i].value>(context, parameters, settings))
                                       : void()),
     ...);
  }(std::make_index_sequence<std::size(kKinds)>());
  return made;
}

}  // namespace axonn
