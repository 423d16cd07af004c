// Broken directories are one sentence, on every rank.
#include "axonn/model/hugging_face/model_directory.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/model/decoder/model.hpp"
#include "layers/layer_fixture.hpp"
#include "model/hugging_face/oracle.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using namespace test;

// A copy of a directory that a test breaks.
class BrokenDirectory : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(oracle_folder("llama"))) GTEST_SKIP() << "needs " << oracle_folder("llama");
  }
  void copy(const std::string& name) {
    for (const auto& file : fs::directory_iterator(oracle_folder(name)))
      fs::copy_file(file.path(), here() / file.path().filename(), fs::copy_options::overwrite_existing);
  }
  fs::path here() const { return scratch_.path(); }
  void edit(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = test::read(here() / file);
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    text.replace(place, from.size(), to);
    std::ofstream(here() / file, std::ios::binary) << text;
  }

 private:
  Scratch scratch_;
};

TEST_F(BrokenDirectory, NamesAllTensorsThatDoNotFit) {
  copy("llama");
  edit("config.json", "\"intermediate_size\": 80", "\"intermediate_size\": 96");
  EXPECT_USER_ERROR(ModelDirectory(here()),
                    "'model.layers.0.mlp.gate_proj.weight' is [80, 48] of F32, and config.json describes [96, 48]",
                    "'model.layers.1.mlp.down_proj.weight' is [48, 80]");
  copy("llama");
  edit("model.safetensors", "model.norm.weight", "model.nomr.weight");
  EXPECT_USER_ERROR(ModelDirectory(here()), "'model.norm.weight' is missing",
                    "'model.nomr.weight' is left over; did you mean 'model.norm.weight'?");
  copy("qwen2");
  edit("config.json", "\"model_type\": \"qwen2\"", "\"model_type\": \"llama\"");
  EXPECT_USER_ERROR(ModelDirectory(here()), "'model.layers.0.self_attn.k_proj.bias' is left over");
  copy("llama");
  edit("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 9");
  EXPECT_USER_ERROR(ModelDirectory(here()), "'model.layers.2.input_layernorm.weight' is missing", "more; give the");
}

TEST_F(BrokenDirectory, SaysWhatIsWrongWithItsFiles) {
  EXPECT_USER_ERROR(ModelDirectory(here()), "config.json: No such file");
  copy("llama");
  fs::resize_file(here() / "model.safetensors", 5000);
  EXPECT_USER_ERROR(ModelDirectory(here()), "model.safetensors");
  fs::remove(here() / "model.safetensors");
  EXPECT_USER_ERROR(ModelDirectory(here()), "has neither model.safetensors nor model.safetensors.index.json");
  std::ofstream(here() / "pytorch_model.bin") << "x";
  EXPECT_USER_ERROR(ModelDirectory(here()), "pytorch_model.bin holds programs as well as weights, and is not read");
  fs::remove(here() / "pytorch_model.bin");
  copy("llama_bf16_shards");
  fs::remove(here() / "model-00002-of-00004.safetensors");
  EXPECT_USER_ERROR(ModelDirectory(here()), "model-00002-of-00004.safetensors");
  copy("llama_bf16_shards");
  fs::copy_file(here() / "model-00001-of-00004.safetensors", here() / "model-00003-of-00004.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_USER_ERROR(ModelDirectory(here()),
                    "model-00003-of-00004.safetensors: ", "is in another file of the index too");
  copy("llama_bf16_shards");
  edit("model.safetensors.index.json", "\"model.norm.weight\": \"model-00004", "\"model.nomr.weight\": \"model-00004");
  EXPECT_USER_ERROR(ModelDirectory(here()),
                    "'model.nomr.weight' should be in model-00004-of-00004.safetensors, which does not hold it");
}

// A tied network's file may hold the head too, if it is the embedding.
TEST_F(BrokenDirectory, MayHoldATiedHeadOnlyIfItIsTheEmbedding) {
  copy("llama");
  edit("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  const ModelDirectory directory(here());
  Context context(test_environment(), GridShape{.z = test_environment().ranks()});
  Decoder model(context, {.shape = directory.config().shape});
  const Parameters parameters = context.materialize(model, 1);
  EXPECT_USER_ERROR(directory.load(context, parameters),
                    "'lm_head.weight' differs from 'model.embed_tokens.weight', and config.json ties them");
}

TEST_F(BrokenDirectory, IsLoadedIntoANetworkOfItsShapeOnly) {
  copy("llama");
  const ModelDirectory directory(here());
  Context context(test_environment(), GridShape{.z = test_environment().ranks()});
  DecoderShape shape = directory.config().shape;
  shape.mlp_hidden = 96;
  Decoder model(context, {.shape = shape});
  const Parameters parameters = context.materialize(model, 1);
  EXPECT_USER_ERROR(directory.load(context, parameters),
                    "'h.0.mlp.fc.weight' is [160, 48], and the network has [192, 48]");
}

// Every rank reads its ranges of every grid, of weights that lie in other orders and types.
TEST(ModelDirectoryOnEveryGrid, GivesEachRankItsElements) {
  for (const char* name : {"llama_bf16_shards", "gpt2", "qwen3"}) {
    if (!fs::exists(oracle_folder(name))) GTEST_SKIP() << "needs " << oracle_folder(name);
    const ModelDirectory directory(oracle_folder(name));
    const DecoderShape& shape = directory.config().shape;
    std::map<std::string, at::Tensor> whole;
    {
      const auto of_one = [&] {  // read by itself, with Python's order of axes
        for (const DecoderTensor& tensor : tensor_names(shape, directory.config().model_type)) {
          std::vector<at::Tensor> parts;
          for (const FilePart& part : tensor.parts) {
            const fs::path one = directory.path() / "model.safetensors";
            const safetensors::StateDictReader files(fs::exists(one) ? one : fs::path(one.string() + ".index.json"));
            const auto& [file, entry] = files.places().at(part.name);
            const at::Tensor stored = at::empty(entry->shape, entry->dtype);
            file->read(*entry, {static_cast<std::byte*>(stored.mutable_data_ptr()), stored.nbytes()});
            parts.push_back(part.transposed ? stored.t() : stored);
          }
          whole.emplace(tensor.name, at::cat(parts, 0).to(at::kDouble));
        }
      };
      of_one();
    }
    for (const GridShape& grid : every_grid()) {
      if (shape.keys() % grid.x != 0) continue;
      Context context = context_on(grid);
      Decoder model(context, {.shape = shape});
      const Parameters parameters = context.materialize(model, 1);
      directory.load(context, parameters);
      for (const ShardedParameter& parameter : parameters.list())
        EXPECT_TRUE(parameter.shard().equal(my_range(context, parameter.slot(), whole.at(parameter.name()))))
            << name << ": " << parameter.name() << " on " << grid.to_string();
    }
  }
}

}  // namespace
}  // namespace axonn
