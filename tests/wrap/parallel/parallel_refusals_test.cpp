// Refusals of parallelize(), and their words.
#include <sstream>

#include <torch/serialize.h>

#include "support/user_error.hpp"
#include "wrap/parallel/parallel_networks.hpp"

namespace axonn {
namespace {

using namespace test;

#define EXPECT_NOT_PARALLELIZED(sequential, ...)                      \
  do {                                                                \
    Context context_ = make_context();                                \
    nn::Sequential refused_ = sequential;                             \
    refused_->to(torch::kDouble);                                     \
    EXPECT_USER_ERROR(parallelize(context_, *refused_), __VA_ARGS__); \
  } while (false)

TEST(ParallelRefusals, SequentialsThatCannotBeDivided) {
  EXPECT_NOT_PARALLELIZED(nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(9, 4)), "'2' takes 9 features",
                          "'1' gives 8");
  EXPECT_NOT_PARALLELIZED(nn::Sequential(nn::Linear(4, 8), nn::Dropout(1.0)), "'1' drops everything");
  EXPECT_NOT_PARALLELIZED(nn::Sequential(nn::Bilinear(4, 8, 3)), "no Sequential of the module", "shard()");
  if (parallel_grid().x * parallel_grid().y == 1) return;
  EXPECT_NOT_PARALLELIZED(nn::Sequential(nn::Linear(4, 8), nn::Dropout2d(0.5)), "'1'", "Dropout2d", "random numbers");
  EXPECT_NOT_PARALLELIZED(nn::Sequential(nn::Linear(4, 8), nn::LSTM(nn::LSTMOptions(8, 8).dropout(0.5))), "'1'", "LSTM",
                          "X = Y = 1");
}

TEST(ParallelRefusals, NoneForAModuleWithoutASharedPointer) {
  Context context = make_context();
  nn::SequentialImpl net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  net.to(torch::kDouble);
  const WrappedModule parameters = parallelize(context, net);
  auto step = context.begin_step();
  EXPECT_EQ(net.forward(torch::ones({4, 4}, torch::kDouble)).sizes(), (std::vector<int64_t>{4, 2}));
  step.abandon();
}

TEST(ParallelRefusals, WhatACallGetsWrong) {
  Context context = make_context();
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, 12, 3)), nn::Flatten(), nn::Linear(12 * 4, 6), nn::Linear(6, 2));
  net->to(torch::kDouble);
  const nn::Linear handle(std::dynamic_pointer_cast<nn::LinearImpl>(net->ptr(2)));
  const WrappedModule parameters = parallelize(context, *net);
  const auto images = [](int64_t channels, int64_t size) {
    return torch::ones({4, channels, size, size}, torch::kDouble);
  };
  EXPECT_USER_ERROR(net->forward(images(3, 4)), "'0' is used outside a step", "parameters.gathered()");
  EXPECT_USER_ERROR(parallelize(context, *net), "parallelized before");
  std::ostringstream out;
  EXPECT_USER_ERROR(torch::save(net, out), "'0' is divided by axonn::parallelize()", "save_state_dict()");
  try {
    handle->weight.sum();
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("'2.weight' is divided by axonn::parallelize()"), std::string::npos);
  }
  auto step = context.begin_step();
  EXPECT_USER_ERROR(net->forward(images(5, 4)), "5");
  EXPECT_USER_ERROR(net->forward(images(3, 4).select(0, 0)), "batch of images");
  EXPECT_USER_ERROR(net->forward(images(3, 5)), "'2' takes 48 features, got 108");
  step.abandon();
}

}  // namespace
}  // namespace axonn
