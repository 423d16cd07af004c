// Weights and optimizer state of wrapped modules as files.
#include <cstring>
#include <fstream>
#include <iterator>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Rank 0 writes a file of plain tensors.
void write_plain(const std::filesystem::path& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (test_environment().rank() == 0) {
    std::vector<safetensors::View> views;
    for (const auto& [name, tensor] : tensors)
      views.push_back({.name = name,
                       .dtype = tensor.scalar_type(),
                       .shape = tensor.sizes().vec(),
                       .parts = {{static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}}});
    safetensors::write(path, views);
  }
  test_environment().world().barrier().wait();
}

// Rank 0 writes what torch.save(dict(...)) of Python does.
void write_dictionary(const std::filesystem::path& path, const std::vector<std::pair<std::string, at::IValue>>& all) {
  if (test_environment().rank() == 0) {
    c10::impl::GenericDict dictionary(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [name, value] : all) dictionary.insert(name, value);
    const std::vector<char> bytes = torch::pickle_save(dictionary);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  test_environment().world().barrier().wait();
}

template <typename Net>
std::vector<std::pair<std::string, at::Tensor>> everything(const Net& net) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& each : net.named_parameters()) all.emplace_back(each.key(), each.value().detach().clone());
  for (const auto& each : net.named_buffers()) all.emplace_back(each.key(), each.value().clone());
  return all;
}

template <typename Net>
void expect_saved(const SharedDirectory& directory, const std::vector<std::string>& units) {
  const auto plain = network<Net>();
  std::string first;
  for (const GridShape& grid : wrapped_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const auto net = network<Net>();
    const WrappedModule parameters = shard(context, *net, {.units = units});
    save_state_dict(parameters, directory / "weights.safetensors");
    const std::string bytes = bytes_of(directory / "weights.safetensors");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << grid.to_string();
    const safetensors::File file(directory / "weights.safetensors");
    EXPECT_EQ(file.entries().size(), everything(*plain).size());
    for (const auto& [name, tensor] : everything(*plain)) {
      const auto* entry = file.find(name);
      ASSERT_NE(entry, nullptr) << name;
      EXPECT_EQ(entry->shape, tensor.sizes().vec()) << name;
      std::vector<std::byte> read(tensor.nbytes());
      file.read(*entry, read);
      EXPECT_EQ(std::memcmp(read.data(), tensor.const_data_ptr(), read.size()), 0) << name;
    }
  }
}

struct StateFiles : ::testing::Test {
  StateFiles() {
    if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
    directory.barrier();
  }
  SharedDirectory directory;
};

TEST_F(StateFiles, HoldTheNamesAndBytesOfThePlainModule) {
  expect_saved<ResNet>(directory, {"blocks.*"});
  expect_saved<Tied>(directory, {});
  expect_saved<LstmModel<Unit<torch::nn::LSTM>>>(directory, {});
}

TEST_F(StateFiles, AreLoadedOnAnyGrid) {
  const auto plain = network<Tied>(7);
  auto all = everything(*plain);
  std::erase_if(all, [](const auto& each) { return each.first == "tied" || each.first.starts_with("down."); });
  const std::vector<std::pair<std::string, at::Tensor>> one(all.begin(), all.begin() + 3),
      two(all.begin() + 3, all.end());
  write_plain(directory / "all.safetensors", all);
  write_plain(directory / "one.safetensors", one);
  write_plain(directory / "two.safetensors", two);
  std::vector<std::pair<std::string, at::IValue>> values;
  for (const auto& [name, tensor] : all) values.emplace_back(name, tensor.t().contiguous().t());  // strides are kept
  write_dictionary(directory / "all.pt", values);
  if (test_environment().rank() == 0) {
    std::string files;
    for (const auto& each : one) files += '"' + each.first + R"(": "one.safetensors", )";
    for (const auto& each : two) files += '"' + each.first + R"(": "two.safetensors", )";
    files.resize(files.size() - 2);
    std::ofstream(directory / "model.safetensors.index.json") << R"({"metadata": {}, "weight_map": {)" << files << "}}";
  }
  directory.barrier();
  for (const GridShape& grid : wrapped_grids())
    for (const std::string name : {"all.safetensors", "model.safetensors.index.json", "all.pt"}) {
      Context context(test_environment(), grid, {.dtype = at::kDouble});
      const auto net = network<Tied>(1);
      const WrappedModule parameters = shard(context, *net);
      const LoadedStateDict loaded = load_state_dict(parameters, directory / name);
      EXPECT_TRUE(loaded.missing.empty() && loaded.unexpected.empty());
      expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each; }), false, 0, name);
      const at::NoGradGuard no_grad;
      const auto whole = parameters.gathered();
      EXPECT_TRUE(net->frozen.equal(plain->frozen));
      EXPECT_TRUE(net->tied.equal(plain->tied));
    }
}

TEST_F(StateFiles, OfAGivenSizeHaveAnIndex) {
  constexpr int64_t kBytes = 20'000;
  Context context(test_environment(), wrapped_grids().back(), {.dtype = at::kDouble});
  const auto net = network<ResNet>(3), other = network<ResNet>(1);
  const WrappedModule parameters = shard(context, *net, {.units = {"blocks.*"}});
  save_state_dict(parameters, directory / "net.safetensors", {.dtype = at::kFloat, .shard_bytes = kBytes});
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator(directory.path())) {
    if (each.path().extension() != ".safetensors") continue;
    ++files;
    const safetensors::File file(each.path());
    int64_t bytes = 0;
    for (const auto& entry : file.entries()) bytes += entry.size_bytes();
    EXPECT_TRUE(bytes <= kBytes || file.entries().size() == 1) << each.path() << ' ' << bytes;
  }
  EXPECT_GT(files, 2);
  directory.barrier();
  const WrappedModule loaded = shard(context, *other, {.units = {"blocks.*"}});
  load_state_dict(loaded, directory / "net.safetensors.index.json");
  for (size_t i = 0; i < loaded.local().size(); ++i)
    EXPECT_TRUE(loaded.local()[i].equal(parameters.local()[i].to(at::kFloat).to(at::kDouble))) << loaded.names()[i];
  EXPECT_USER_ERROR(save_state_dict(parameters, directory / "x", {.shard_bytes = -1}), "shard_bytes", "got -1");
}

TEST_F(StateFiles, ThatDoNotFitAreRefusedWhole) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto net = network<Tied>();
  auto all = everything(*net);
  const WrappedModule parameters = shard(context, *net);
  std::erase_if(all, [](const auto& each) { return !each.first.starts_with("norm"); });
  all.emplace_back("words.wieght", torch::zeros({61, 40}));
  all.emplace_back("up.weight", torch::zeros({4, 4}));
  all.emplace_back("up.bias", torch::zeros({40}, torch::kLong));
  write_plain(directory / "wrong.safetensors", all);
  const auto before = parameters.local()[0].detach().clone();
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "wrong.safetensors"), "'tied' or 'words.weight' is missing",
                    "'words.wieght' is unexpected; did you mean 'words.weight'?",
                    "'up.weight' is [4, 4] of Float, and the module needs [40, 40] of Double",
                    "'up.bias' is [40] of Long");
  EXPECT_TRUE(parameters.local()[0].equal(before));
  const LoadedStateDict loaded = load_state_dict(
      parameters, directory / "wrong.safetensors",
      {.strict = false, .rename = [](const std::string& name) {
         return name == "words.wieght" ? std::string("words.weight") : name.starts_with("up") ? "" : name;
       }});
  EXPECT_EQ(loaded.unexpected, std::vector<std::string>{});
  EXPECT_EQ(loaded.missing, (std::vector<std::string>{"scale", "up.weight", "up.bias", "frozen"}));
  EXPECT_EQ(parameters.local()[0].count_nonzero().item<int64_t>(), 0);

  write_plain(directory / "ties.safetensors",
              {{"words.weight", torch::zeros({61, 40})}, {"tied", torch::ones({61, 40})}});
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "ties.safetensors", {.strict = false}), "'words.weight'",
                    "'tied'", "different values");
  write_plain(directory / "cut.safetensors", {{"words.weight", torch::zeros({61, 40})}});
  if (test_environment().rank() == 0) std::filesystem::resize_file(directory / "cut.safetensors", 5000);
  directory.barrier();
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "cut.safetensors"), "cut.safetensors", "bytes of data");
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "none.safetensors"), "cannot open");
  if (test_environment().rank() == 0) {
    std::ofstream(directory / "list.json") << "[]";
    torch::save(torch::ones({3}), (directory / "zip.pt").string());
    std::ofstream(directory / "old.pt", std::ios::binary) << "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20";
  }
  directory.barrier();
  for (const std::string name : {"zip", "old"})
    EXPECT_USER_ERROR(load_state_dict(parameters, directory / (name + ".pt")), name + ".pt was written by torch.save",
                      "safetensors.torch.save_file(", "'" + name + ".safetensors')");
  write_dictionary(directory / "more.pt", {{"words.weight", torch::zeros({61, 40})}, {"epoch", 3}});
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "more.pt"), "more.pt: 'epoch' is no dense tensor",
                    "torch.save(dict(net.state_dict()), 'more.pt')");
  write_dictionary(directory / "wrong.pt", {{"words.weight", torch::zeros({3, 40})}});
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "wrong.pt"), "'words.weight' is [3, 40] of Float");
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "wrong.pt", {.rename = [](const auto&) { return ""; }}),
                    "'words.weight' is missing");
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / "list.json"), "no weight_map");
  auto step = context.begin_step();
  EXPECT_USER_ERROR(save_state_dict(parameters, directory / "in_step.safetensors"), "between steps");
  step.abandon();
  EXPECT_THROW(save_state_dict(parameters, directory / "missing/folder.safetensors"), BackendError);
}

// As on hosts whose folders are not shared.
TEST_F(StateFiles, AreTheSameOnAllRanks) {
  const int last = test_environment().ranks() - 1;
  if (last == 0) GTEST_SKIP() << "one rank has one file";
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto net = network<Mnist>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::AdamW optimizer(parameters.local());
  for (const std::string after : {"_a", "_b"}) {
    auto step = context.begin_step();
    my_loss(*net, context, 0).backward();
    step.finish();
    optimizer.step();
    save_state_dict(parameters, directory / ("weights" + after));
    save_optimizer(parameters, optimizer, directory / ("optimizer" + after));
  }
  const std::string own = test_environment().rank() == last ? "_b" : "_a";
  const std::string who = "rank " + std::to_string(last) + " has another file of tensors than rank 0";
  const auto before = parameters.local()[0].detach().clone();
  EXPECT_USER_ERROR(load_state_dict(parameters, directory / ("weights" + own)), who, "weights_b", "weights_a");
  EXPECT_USER_ERROR(load_optimizer(parameters, optimizer, directory / ("optimizer" + own)), who, "optimizer_b");
  EXPECT_TRUE(parameters.local()[0].equal(before));
}

// Trains two steps, saves, and trains two more: the same bits as those of a run that was loaded.
template <typename Optimizer, typename Options>
void expect_resumed(const SharedDirectory& directory, Options options) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto train = [&](Mnist& net, Optimizer& optimizer, int64_t first) {
    for (int64_t i = first; i < first + 2; ++i) {
      auto step = context.begin_step();
      my_loss(net, context, i).backward();
      step.finish();
      optimizer.step();
    }
  };
  const auto net = network<Mnist>(), other = network<Mnist>(9);
  const WrappedModule parameters = shard(context, *net);
  Optimizer optimizer(parameters.local(), options);
  train(*net, optimizer, 0);
  save_state_dict(parameters, directory / "weights");
  save_optimizer(parameters, optimizer, directory / "optimizer");
  train(*net, optimizer, 2);

  Context another(test_environment(), wrapped_grids().back(), {.dtype = at::kDouble});
  {
    const WrappedModule resumed = shard(context, *other);
    Optimizer loaded(resumed.local(), options);
    load_state_dict(resumed, directory / "weights");
    load_optimizer(resumed, loaded, directory / "optimizer");
    save_optimizer(resumed, loaded, directory / "again");
    EXPECT_EQ(bytes_of(directory / "again"), bytes_of(directory / "optimizer"));
  }
  const auto third = network<Mnist>(4);
  const WrappedModule on_another = shard(another, *third);
  Optimizer moved(on_another.local(), options);
  load_state_dict(on_another, directory / "weights");
  load_optimizer(on_another, moved, directory / "optimizer");
  save_optimizer(on_another, moved, directory / "third");
  EXPECT_EQ(bytes_of(directory / "third"), bytes_of(directory / "optimizer"));
}

template <typename Optimizer, typename Options>
void expect_same_bits_after_resume(const SharedDirectory& directory, Options options) {
  std::vector<at::Tensor> need;
  for (const bool interrupted : {false, true}) {
    Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
    const auto run = [&](const WrappedModule& parameters, Mnist& net, Optimizer& optimizer, int64_t first,
                         int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        auto step = context.begin_step();
        my_loss(net, context, i).backward();
        step.finish();
        optimizer.step();
      }
      return parameters.local();
    };
    if (interrupted) {
      const auto net = network<Mnist>();
      const WrappedModule parameters = shard(context, *net);
      Optimizer optimizer(parameters.local(), options);
      run(parameters, *net, optimizer, 0, 2);
      save_state_dict(parameters, directory / "weights");
      save_optimizer(parameters, optimizer, directory / "optimizer");
    }
    const auto net = network<Mnist>();
    const WrappedModule parameters = shard(context, *net);
    Optimizer optimizer(parameters.local(), options);
    if (interrupted) load_state_dict(parameters, directory / "weights");
    if (interrupted) load_optimizer(parameters, optimizer, directory / "optimizer");
    const auto got = run(parameters, *net, optimizer, interrupted ? 2 : 0, 4);
    for (size_t i = 0; i < need.size(); ++i) EXPECT_TRUE(got[i].equal(need[i])) << parameters.names()[i];
    need = got;
  }
}

TEST_F(StateFiles, OfOptimizersGoOnWithTheSameBits) {
  expect_same_bits_after_resume<torch::optim::AdamW>(directory, torch::optim::AdamWOptions(1e-3).amsgrad(true));
  expect_same_bits_after_resume<torch::optim::SGD>(directory, torch::optim::SGDOptions(1e-3).momentum(0.9));
  expect_same_bits_after_resume<torch::optim::Adagrad>(directory, torch::optim::AdagradOptions(1e-3));
  expect_same_bits_after_resume<torch::optim::RMSprop>(directory, torch::optim::RMSpropOptions(1e-3).momentum(0.9));
}

TEST_F(StateFiles, OfOptimizersAreTheSameOnEveryGrid) {
  expect_resumed<torch::optim::Adam>(directory, torch::optim::AdamOptions(1e-3));
}

TEST_F(StateFiles, OfOtherOptimizersAreRefused) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto net = network<Mnist>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::LBFGS lbfgs(parameters.local());
  EXPECT_USER_ERROR(save_optimizer(parameters, lbfgs, directory / "lbfgs"), "not known", "AdamW");
  torch::optim::AdamW adam(parameters.local());
  torch::optim::Adagrad adagrad(parameters.local());
  save_optimizer(parameters, adam, directory / "before");
  load_optimizer(parameters, adam, directory / "before");
  EXPECT_TRUE(adam.state().empty());  // it has taken no step
  save_optimizer(parameters, adagrad, directory / "adagrad");
  EXPECT_USER_ERROR(load_optimizer(parameters, adam, directory / "adagrad"), "'exp_avg/conv1.weight' is missing",
                    "'sum/conv1.weight' is unexpected");
}

}  // namespace
}  // namespace axonn
