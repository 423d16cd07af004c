#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/checkpoint/safetensors.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>

#include "checkpoint_commands.hpp"
#include "tensor_source.hpp"

namespace {

struct Total {
  int64_t tensors = 0, elements = 0;
  double bytes = 0;
  std::set<std::string> dtypes;

  void add(const SourceTensor& tensor) {
    ++tensors;
    elements += tensor.numel();
    bytes += static_cast<double>(tensor.bytes());
    dtypes.emplace(axonn::safetensors::dtype_name(tensor.dtype));
  }
};

void print_state(const axonn::CheckpointReader& checkpoint) {
  const axonn::CheckpointState& state = checkpoint.state();
  std::printf("%s\n  run %s\n  step %lld, %lld updates, %lld samples, seed %llu\n  written on grid %s\n",
              checkpoint.directory().c_str(), state.run.c_str(), static_cast<long long>(state.step),
              static_cast<long long>(state.updates()), static_cast<long long>(state.samples),
              static_cast<unsigned long long>(state.seed), checkpoint.grid().to_string().c_str());
  if (state.loss_scale) std::printf("  loss scale %g\n", state.loss_scale->value);
  for (const auto& [what, choice] : state.choices) std::printf("  choice of %s: %s\n", what.c_str(), choice.c_str());
}

// A file has no groups.
void print_totals(const std::vector<SourceTensor>& tensors, bool grouped) {
  std::map<std::string, Total> totals;
  for (const SourceTensor& tensor : tensors)
    totals[grouped ? tensor.name.substr(0, tensor.name.find('/')) : "-"].add(tensor);
  std::printf("\n| group | tensors | elements | size | types |\n| --- | --- | --- | --- | --- |\n");
  for (const auto& [group, total] : totals) {
    std::printf("| %s | %lld | %lld | %s | %s |\n", group.c_str(), static_cast<long long>(total.tensors),
                static_cast<long long>(total.elements), axonn::bytes_text(total.bytes).c_str(),
                axonn::join(total.dtypes, ", ").c_str());
  }
}

}  // namespace

int show_checkpoint(const CheckpointOptions& options) {
  const std::string& path = options.paths.front();
  const auto tensors = tensors_of(path, options.group);
  const bool grouped = !is_state_dict(path) && options.group.empty();
  if (is_state_dict(path)) {
    std::printf("%s\n", path.c_str());
  } else {
    const axonn::CheckpointReader checkpoint(path);
    print_state(checkpoint);
    if (options.configuration)
      std::printf("\n%s\n", nlohmann::ordered_json::parse(checkpoint.state().configuration).dump(2).c_str());
  }
  print_totals(tensors, grouped);
  if (!options.tensors) return 0;
  std::printf("\n| tensor | shape | type |\n| --- | --- | --- |\n");
  for (const SourceTensor& tensor : tensors)
    std::printf("| %s | %s | %s |\n", tensor.name.c_str(), tensor.shape_text().c_str(),
                std::string(axonn::safetensors::dtype_name(tensor.dtype)).c_str());
  return 0;
}
