// saved_layers GRID DIRECTORY: one step of a linear layer, a checkpoint of it, and reading the
// weights back.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/comm/environment.hpp>
#include <axonn/layers/context.hpp>
#include <axonn/layers/linear.hpp>
#include <axonn/optim/make_optimizer.hpp>

namespace {

std::vector<axonn::CheckpointTensor> weights_of(const axonn::Parameters& parameters) {
  std::vector<axonn::CheckpointTensor> tensors;
  for (const axonn::ArenaSlot& slot : parameters.arena().slots())
    tensors.push_back(
        {"weights/" + slot.name, slot.spec, parameters.arena().master().narrow(0, slot.offset, slot.stored)});
  return tensors;
}

int run(const char* grid, const char* directory) {
  axonn::Environment environment;
  axonn::Context context(environment, axonn::parse_grid_shape(grid));
  axonn::Linear layer(
      context, {.in = 8, .out = 12, .input = axonn::Layout::replicated(), .output = axonn::Layout::replicated()});
  const auto parameters = context.materialize(*layer, /*seed=*/1);
  const auto optimizer = axonn::make_optimizer(context, parameters, {});

  auto step = context.begin_step();
  layer(at::ones({4, 8})).sum().backward();
  step.finish();
  optimizer->step();

  const auto tensors = weights_of(parameters);
  const axonn::CheckpointWriter writer(context.grid(), environment.world(), {.directory = directory});
  writer.save({.run = "saved_layers", .step = 1}, tensors);
  auto read = tensors;
  for (axonn::CheckpointTensor& tensor : read) tensor.shard = at::zeros_like(tensor.shard);
  const auto ranks_along = [&](axonn::AxisSet axes) -> axonn::Communicator& {
    return context.communicators().on_cpu(axes);
  };
  axonn::CheckpointReader(environment.world(), directory).load(ranks_along, context.shape(), context.at(), read);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].shard.equal(read[i].shard)) return EXIT_FAILURE;
  if (environment.rank() == 0) std::printf("%zu tensors on %s\n", tensors.size(), grid);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) try {
  return argc == 3 ? run(argv[1], argv[2]) : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "saved_layers: %s\n", error.what());
  return EXIT_FAILURE;
}
