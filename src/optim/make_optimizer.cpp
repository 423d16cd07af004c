#include "axonn/optim/make_optimizer.hpp"

#include <iterator>
#include <utility>

#include "axonn/core/error.hpp"
#include "optim/rule.hpp"

namespace axonn {

void check_optimizer(const OptimizerSettings& settings) {
  for (const auto& [value, name] : {std::pair(settings.learning_rate, "learning_rate"),
                                    {settings.weight_decay, "weight_decay"},
                                    {settings.epsilon, "epsilon"}})
    AXONN_CHECK(!(value < 0), "optim.settings", name, " must be at least 0, got ", value);
  for (const auto& [value, name] :
       {std::pair(settings.beta1, "beta1"), {settings.beta2, "beta2"}, {settings.momentum, "momentum"}})
    AXONN_CHECK(value >= 0 && value < 1, "optim.settings", name, " must be in [0, 1), got ", value);
}

std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters,
                                          const OptimizerSettings& settings) {
  check_optimizer(settings);
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
