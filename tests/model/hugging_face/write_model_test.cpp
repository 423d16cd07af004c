// A directory that is read and written again is equal, byte for byte.
#include "axonn/model/hugging_face/write_model.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/model/decoder/model.hpp"
#include "axonn/model/hugging_face/model_directory.hpp"
#include "layers/layer_fixture.hpp"
#include "model/hugging_face/oracle.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using namespace test;

std::map<std::string, at::Tensor> tensors_in(const fs::path& directory) {
  std::map<std::string, at::Tensor> tensors;
  const fs::path one = directory / "model.safetensors";
  const safetensors::StateDictReader files(fs::exists(one) ? one : directory / "model.safetensors.index.json");
  for (const auto& [name, place] : files.places()) {
    const at::Tensor whole = at::empty(place.entry->shape, place.entry->dtype);
    place.file->read(*place.entry, {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()});
    tensors.emplace(name, whole);
  }
  return tensors;
}

class WriteModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(oracle_folder(GetParam()))) GTEST_SKIP() << "needs " << oracle_folder(GetParam());
    if (test_environment().ranks() > 1) GTEST_SKIP() << "one rank writes";
  }
};

// Every size, as the file of an export has it, also where the one that was read left it out.
DecoderShape with_all_sizes(DecoderShape shape) {
  if (shape.positions == 0) shape.head_dim = shape.features_of_head();
  return shape;
}

TEST_P(WriteModel, WhatWasReadIsWrittenAgain) {
  const Scratch scratch;
  const fs::path from = oracle_folder(GetParam());
  const ModelDirectory directory(from);
  Context context = context_on({});
  Decoder model(context, {.shape = directory.config().shape});
  const Parameters parameters = context.materialize(model, 1);
  directory.load(context, parameters);
  const auto read = [&](const std::string& name) {
    const ShardedParameter& parameter = parameters[name];
    return parameter.shard().detach().view(parameter.spec().global_shape());
  };
  for (const int64_t shard_bytes : {0, 20000}) {
    const fs::path to = scratch / ("to-" + std::to_string(shard_bytes));
    const int64_t bytes = write_model(to, directory.config().shape, read,
                                      {.dtype = directory.dtype(), .shard_bytes = shard_bytes, .original = from});
    const auto before = tensors_in(from), after = tensors_in(to);
    ASSERT_EQ(after.size(), before.size());
    int64_t all = 0;
    for (const auto& [name, tensor] : before) {
      ASSERT_TRUE(after.contains(name)) << name;
      EXPECT_EQ(after.at(name).scalar_type(), tensor.scalar_type()) << name;
      EXPECT_TRUE(after.at(name).equal(tensor)) << name;
      all += static_cast<int64_t>(tensor.nbytes());
    }
    EXPECT_EQ(bytes, all);
    EXPECT_EQ(ModelDirectory(to).config().shape, with_all_sizes(directory.config().shape));
    EXPECT_EQ(ModelDirectory(to).config().model_type, directory.config().model_type);
    EXPECT_EQ(fs::exists(to / "model.safetensors"), shard_bytes == 0);
    if (fs::exists(from / "generation_config.json")) {
      EXPECT_EQ(test::read(to / "generation_config.json"), test::read(from / "generation_config.json"));
    }
    EXPECT_FALSE(fs::exists(to.string() + ".partial"));
    EXPECT_USER_ERROR(write_model(to, directory.config().shape, read, {}), "exists; name another directory");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WriteModel,
                         testing::Values("llama", "llama_bf16_shards", "mistral", "qwen2", "qwen3", "gpt2"),
                         [](const auto& one) { return std::string(one.param); });

// A half goes to the even one of its neighbours.
TEST(WriteModelTypes, NumbersAreTheNearest) {
  if (test_environment().ranks() > 1) GTEST_SKIP() << "one rank writes";
  const Scratch scratch;
  const DecoderShape shape = {.layers = 1, .hidden = 4, .heads = 2, .sequence = 8, .vocabulary = 5};
  for (const auto& [dtype, step] : {std::pair{at::kBFloat16, 0x1p-7F}, {at::kHalf, 0x1p-10F}})
    for (const auto& [steps, nearest] : {std::pair{0.5F, 0}, {1.5F, 2}, {0.5F + 0x1p-8F, 1}, {2.5F - 0x1p-8F, 2}})
      for (const float sign : {1.0F, -1.0F}) {
        const float value = sign * (1 + steps * step);
        const auto read = [&](const std::string& name) {
          for (const DecoderTensor& tensor : tensor_names(shape, "gpt2"))
            if (tensor.name == name) return at::full(tensor.shape, value, at::kFloat);
          return at::Tensor();
        };
        const fs::path to = scratch / detail::concatenate(toString(dtype), " ", value);
        write_model(to, shape, read, {.dtype = dtype});
        for (const auto& [name, tensor] : tensors_in(to))
          EXPECT_TRUE(tensor.to(at::kFloat).eq(sign * (1 + static_cast<float>(nearest) * step)).all().item<bool>())
              << name << ": " << value << " as " << toString(dtype);
      }
}

TEST(WriteModelErrors, LeaveNothingBehind) {
  if (test_environment().ranks() > 1) GTEST_SKIP() << "one rank writes";
  const Scratch scratch;
  const DecoderShape shape = {.layers = 1, .hidden = 4, .heads = 2, .sequence = 8, .vocabulary = 5};
  const fs::path to = scratch / "to";
  const auto too_large = [](const std::string&) { return at::full({16, 4}, 1e6, at::kFloat); };
  EXPECT_USER_ERROR(write_model(to, shape, too_large, {.dtype = at::kHalf}),
                    "transformer.wte.weight has numbers that are too large for F16");
  EXPECT_FALSE(fs::exists(to));
  EXPECT_FALSE(fs::exists(to.string() + ".partial"));
  EXPECT_USER_ERROR(write_model(to, shape, too_large, {.dtype = at::kDouble}), "as fp32, bf16 or fp16, got Double");
}

}  // namespace
}  // namespace axonn
