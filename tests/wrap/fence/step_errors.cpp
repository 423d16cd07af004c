// Throws at one place of a training step, on all ranks, and lets everything be destroyed while the
// exception passes. The status is then 1: step_errors PLACE GRID. Alone, it prints the places. With
// "each" for a place, all but the Environment is destroyed once after each place, and 1 says that
// training went well after that.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include "axonn/comm/environment.hpp"
#include "axonn/wrap/shard.hpp"
#include "axonn/wrap/state_dict.hpp"

namespace {

using namespace axonn;

[[noreturn]] void fail() { throw std::runtime_error("thrown on purpose"); }

// A unit that throws when it is told to.
struct BlockImpl : torch::nn::Module {
  BlockImpl() : linear(64, 64) { register_module("linear", linear); }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = torch::tanh(linear(x));
    if (throws) fail();
    if (throws_in_backward) y.register_hook([](const torch::Tensor&) { fail(); });
    return y;
  }
  torch::nn::Linear linear;
  bool throws = false, throws_in_backward = false;
};
TORCH_MODULE(Block);

struct Net : torch::nn::Module {
  Net() : stem(48, 64), blocks(torch::nn::Sequential(first, second)), head(64, 24) {
    register_module("stem", stem);
    register_module("blocks", blocks);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(blocks->forward(stem(x))); }
  Block first, second;
  torch::nn::Linear stem;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};

class Program {
 public:
  Program(Environment& environment, const std::string& grid)
      : context(environment, parse_grid_shape(grid), {.dtype = torch::kDouble}) {
    torch::manual_seed(1);
    net->to(torch::kDouble);
    parameters = shard(context, *net, {.units = {"blocks.*"}});
    optimizer.emplace(parameters->local(), torch::optim::AdamWOptions(1e-3));
    step();  // one that goes well
  }
  torch::Tensor loss() { return net->forward(torch::ones({6, 48}, torch::kDouble)).pow(2).sum(); }
  void step() {
    Step one = context.begin_step();
    loss().backward();
    one.finish();
    optimizer->step();
  }

  Context context;
  std::shared_ptr<Net> net = std::make_shared<Net>();
  std::optional<WrappedModule> parameters;
  std::optional<torch::optim::AdamW> optimizer;
};

const std::map<std::string, std::function<void(Program&)>> kPlaces = {
    {"before-forward",
     [](Program& p) {
       const Step step = p.context.begin_step();
       fail();
     }},
    {"in-a-units-forward",
     [](Program& p) {
       p.net->second->throws = true;
       p.step();
     }},
    {"between-forward-and-backward",
     [](Program& p) {
       const Step step = p.context.begin_step();
       const torch::Tensor loss = p.loss();
       fail();
     }},
    {"in-a-units-backward",
     [](Program& p) {
       p.net->first->throws_in_backward = true;
       p.step();
     }},
    {"in-a-second-backward",
     [](Program& p) {
       const Step step = p.context.begin_step();
       const torch::Tensor loss = p.loss();
       loss.backward({}, /*keep_graph=*/true);
       loss.backward();
     }},
    {"between-micro-batches",
     [](Program& p) {
       const Step step = p.context.begin_step({.micro_batches = 2});
       p.loss().backward();
       fail();
     }},
    {"before-finish",
     [](Program& p) {
       const Step step = p.context.begin_step();
       p.loss().backward();
       fail();
     }},
    {"in-finish",
     [](Program& p) {
       Step step = p.context.begin_step();
       p.net->stem(torch::ones({6, 48}, torch::kDouble)).sum().backward();
       step.finish();  // most parameters have no gradient
     }},
    {"in-the-optimizer",
     [](Program& p) {
       const Step step = p.context.begin_step();
       p.loss().backward();
       p.optimizer->step();  // before finish()
     }},
    {"in-gathered",
     [](Program& p) {
       const torch::NoGradGuard no_grad;
       const auto whole = p.parameters->gathered({.write_back = true});
       p.net->stem->weight.zero_();
       p.net->second->throws = true;
       p.loss();
     }},
    {"in-a-save", [](Program& p) { save_state_dict(*p.parameters, "/dev/null/nothing.safetensors"); }},
    {"after-a-step",
     [](Program& p) {
       Step step = p.context.begin_step();
       p.loss().backward();
       step.finish();
       fail();
     }},
};

void run(const std::string& place, Environment& environment, const std::string& grid) {
  Program program(environment, grid);
  kPlaces.at(place)(program);
}

void run_each(Environment& environment, const std::string& grid) {
  for (const auto& [place, throws] : kPlaces) try {
      run(place, environment, grid);
      std::fprintf(stderr, "nothing thrown: %s\n", place.c_str());
      return;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", place.c_str(), error.what());
    }
  Program(environment, grid).step();
  fail();
}

}  // namespace

int main(int count, char** words) {
  if (count == 1) {
    for (const auto& [name, throws] : kPlaces) std::printf("%s\n", name.c_str());
    return 0;
  }
  try {
    Environment environment;
    const std::string place = words[1];
    place == "each" ? run_each(environment, words[2]) : run(place, environment, words[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 1;
  }
  return 0;
}
