#include "axonn/wrap/state_dict.hpp"

#include "axonn/core/error.hpp"
#include "wrap/stored/optimizer_state.hpp"

namespace axonn {

void save_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                     const SaveStateDictOptions& options) {
  check_between_steps(parameters, Held::saved);
  AXONN_CHECK(options.shard_bytes >= 0, "wrap.state_dict", "shard_bytes must be 0 (one file) or positive, got ",
              options.shard_bytes);
  write_tensors(parameters.network().context(), tensors_of(parameters, options.dtype), file, options.shard_bytes);
}

LoadedStateDict load_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                                const LoadStateDictOptions& options) {
  check_between_steps(parameters, Held::loaded);
  const LoadedStateDict report =
      read_tensors(parameters.network().context(), tensors_of(parameters, {}), file, options);
  parameters.network().values_loaded(report.missing);
  parameters.network().frozen_written();
  return report;
}

void save_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file) {
  check_between_steps(parameters, Held::saved);
  write_tensors(parameters.network().context(), tensors_of(parameters, optimizer), file);
}

void load_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file) {
  check_between_steps(parameters, Held::loaded);
  StateToRead state(parameters, optimizer, names_in(parameters.network().context(), file));
  read_tensors(parameters.network().context(), state.tensors(), file, {});
  state.give_to(optimizer);
}

}  // namespace axonn
