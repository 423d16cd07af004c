// scattered_update: the update of 360 tensors that lie anywhere, beside one contiguous tensor with
// as many elements, in interleaved pairs (CoCoNet's table of scattered tensors).
//   scripts/mpirun -n 2 build/release/bin/scattered_update --program configs/programs/lamb.program
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>

#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/median.hpp"
#include "axonn/overlap/execute/network_update.hpp"

namespace {

using namespace axonn;

struct Options {
  int turns = 21;
  int64_t divisor = 1;
  std::string program = "configs/programs/adamw.program";
  std::string dtype = "fp32";
};

// BERT's tensors, with narrower matrices: 360 of 1 K to 31 M elements, 84 M in all.
std::vector<int64_t> bert_sizes(int64_t divisor) {
  std::vector<int64_t> sizes = {30528 * 1024, 512 * 1024, 2 * 1024, 1024, 1024, 1024, 1024, 1024};
  for (int layer = 0; layer < 22; ++layer)
    sizes.insert(sizes.end(), {192 * 1024, 1024, 192 * 1024, 1024, 192 * 1024, 1024, 192 * 1024, 1024, 1024, 1024,
                               768 * 1024, 4096, 768 * 1024, 1024, 1024, 1024});
  for (int64_t& size : sizes) size = std::max<int64_t>(size / divisor, 1);
  return sizes;
}

at::ScalarType dtype_of(const Options& options) { return options.dtype == "fp32" ? at::kFloat : at::kBFloat16; }

std::shared_ptr<Arena> scattered_arena(const Grid& grid, int rank, const Options& options) {
  std::vector<PlacedWeight> weights;
  for (const int64_t size : bert_sizes(options.divisor))
    weights.push_back({"w" + std::to_string(weights.size()), true, at::full({size}, 0.5, dtype_of(options)),
                       at::zeros({size}, dtype_of(options)).fill_(0)});
  return std::make_shared<Arena>(weights, grid, rank);
}

std::shared_ptr<Arena> flat_arena(const Grid& grid, int rank, const std::vector<int64_t>& sizes,
                                  const Options& options) {
  std::vector<Arena::Entry> entries;
  for (const int64_t size : sizes)
    entries.push_back({"w" + std::to_string(entries.size()), ShardSpec{.dims = {Dim::whole(size)}}, true});
  auto arena = std::make_shared<Arena>(entries, grid, rank,
                                       ArenaTypes{dtype_of(options), dtype_of(options), at::kFloat}, c10::kCPU);
  arena->weights().fill_(0.5);
  arena->gradients().fill_(0);
  return arena;
}

struct Form {
  std::string name;
  std::function<void()> step;
  std::vector<double> seconds = {};  // the slowest rank's
};

// All forms in turn, as often as asked; each turn begins with another one.
void measure(Environment& environment, int turns, std::vector<Form>& forms) {
  for (int turn = -1; turn < turns; ++turn)
    for (size_t i = 0; i < forms.size(); ++i) {
      Form& form = forms[(i + static_cast<size_t>(turn + 1)) % forms.size()];
      environment.world().barrier().wait();
      const auto start = std::chrono::steady_clock::now();
      form.step();
      const at::Tensor taken =
          at::full({1}, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), at::kDouble);
      environment.world().all_reduce(taken, ReduceOp::max).wait();
      if (turn >= 0) form.seconds.push_back(taken.item<double>());  // the first turn warms up
    }
}

int run(const Options& options) {
  Environment environment;
  const Grid grid({.data = environment.ranks()});
  const int rank = environment.rank();
  using coconet::ElementType;
  const auto type = options.dtype == "fp32" ? ElementType::fp32 : ElementType::bf16;
  const auto program = coconet::UpdateProgram(coconet::load_program_file(options.program).program)
                           .with_types(type, type, ElementType::fp32);
  Communicators communicators(environment, grid, rank, c10::kCPU);
  const auto update_of = [&](std::shared_ptr<Arena> arena) {
    return std::make_unique<NetworkUpdate>(communicators, grid, rank, std::move(arena), program,
                                           program.scheduled(UpdateSchedule::fuse).program(), coconet::RunSettings(),
                                           OverlapPolicy::none());
  };
  const auto scattered = update_of(scattered_arena(grid, rank, options));
  const auto one = update_of(flat_arena(grid, rank, {scattered->arena().size()}, options));
  const ScatteredTensors &weights = *scattered->arena().scattered_weights(),
                         &gradients = *scattered->arena().scattered_gradients();
  // A user's code without tables: both ways through a flat buffer.
  const auto copied = [&] {
    const auto copy = [&](const ScatteredTensors& tensors, const at::Tensor& flat, bool back) {
      tensors.for_each_run({0, tensors.size()}, [&](Range run) {
        const at::Tensor in_flat = flat.narrow(0, run.begin, run.size()), own = tensors.narrowed(run);
        back ? own.copy_(in_flat) : in_flat.copy_(own);
      });
    };
    copy(gradients, one->arena().gradients(), false);
    one->step();
    copy(weights, one->arena().weights(), true);
  };
  std::vector<Form> forms = {
      {"one tensor", [&] { one->step(); }}, {"scattered", [&] { scattered->step(); }}, {"copied", copied}};
  measure(environment, options.turns, forms);
  if (rank != 0) return 0;
  const auto sizes = bert_sizes(options.divisor);
  std::printf("# %s, %s, %zu tensors, %.1f M places, tables of %.2f MB (%.2f%% of the tensors), %d ranks (%s)\n",
              options.program.c_str(), options.dtype.c_str(), sizes.size(), static_cast<double>(weights.size()) * 1e-6,
              static_cast<double>(weights.table_bytes() + gradients.table_bytes()) * 1e-6,
              100.0 * static_cast<double>(weights.table_bytes() + gradients.table_bytes()) /
                  static_cast<double>(2 * weights.size() * weights.element_size()),
              environment.ranks(), std::string(environment.transport()).c_str());
  for (const Form& form : forms) {
    std::vector<double> ratios;
    for (size_t i = 0; i < form.seconds.size(); ++i) ratios.push_back(form.seconds[i] / forms[0].seconds[i]);
    std::ranges::sort(ratios);
    std::printf("%-10s | %8.1f ms | / one tensor: median %.3f, quartiles %.3f to %.3f\n", form.name.c_str(),
                median(form.seconds) * 1e3, median(ratios), ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("updates of tensors that lie anywhere, beside that of one tensor");
  app.add_option("--turns", options.turns, "repetitions")->check(CLI::PositiveNumber);
  app.add_option("--divisor", options.divisor, "of all sizes")->check(CLI::PositiveNumber);
  app.add_option("--program", options.program, "an optimizer's program, AdamW's or LAMB's");
  app.add_option("--dtype", options.dtype, "type of the weights and gradients")->check(CLI::IsMember({"fp32", "bf16"}));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scattered_update: %s\n", error.what());
    return 1;
  }
}
