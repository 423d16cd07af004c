#include "axonn/perfmodel/network_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/gpt_presets.hpp"

namespace axonn {
namespace {

class NetworkFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ / name) << text;
    return (directory_ / name).string();
  }
  std::string complaint(const std::string& name, const std::string& text) const {
    const std::string path = write(name, text);
    try {
      find_transformer(path);
    } catch (const UserError& error) {
      const std::string sentence = error.sentence(), directory = directory_.string() + "/";
      return sentence.starts_with(directory) ? sentence.substr(directory.size()) : sentence;
    }
    return "";
  }

 private:
  std::filesystem::path directory_ = std::filesystem::path(::testing::TempDir()) / "network_model_test";
};

TEST_F(NetworkFile, OfTheTrainerIsReadWithItsPreset) {
  TransformerShape expected = find_gpt_preset("gpt5b").shape;
  expected.sequence = 4096;
  EXPECT_EQ(find_transformer(write("a.toml", "[model]\nmodel = 'gpt5b'\nsequence = 4096\n[train]\nbatch = 3\n")), expected);
  const TransformerShape mine = {.layers = 2, .hidden = 64, .heads = 4, .sequence = 32, .vocabulary = 100, .tied_head = true};
  EXPECT_EQ(find_transformer(write("b.toml", transformer_model("mine", mine).toml())), mine);
}

TEST_F(NetworkFile, OfHuggingFaceIsReadByEitherNames) {
  const TransformerShape gpt2 = find_gpt_preset("gpt-124m").shape;
  EXPECT_EQ(
      find_transformer(write("gpt2.json", R"({"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})")),
      gpt2);
  const auto other = find_transformer(write("other.json", R"({"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2,
      "max_position_embeddings": 16, "vocab_size": 32, "tie_word_embeddings": false})"));
  EXPECT_EQ(other, (TransformerShape{.layers = 2, .hidden = 8, .heads = 2, .sequence = 16, .vocabulary = 32}));
}

TEST_F(NetworkFile, ComplaintsSayWhatIsMissingOrWrong) {
  EXPECT_EQ(complaint("a.toml", "[model]\nlayers = 2\n"), "a.toml:1: 'hidden' is missing in [model]");
  EXPECT_EQ(complaint("a.toml", "[model]\nmodel = 'gpt5b'\nhiden = 2\n"),
            "a.toml:3: unknown key 'hiden' in [model]; did you mean 'hidden'?");
  EXPECT_EQ(complaint("a.toml", "[model]\nmodel = 'gpt5b'\nlayers = -2\n"),
            "a.toml:3: 'layers' in [model] must be from 1 to 10000, got -2");
  EXPECT_EQ(complaint("a.toml", "[train]\nbatch = 2\n"), "a.toml:1: section [model] is missing");
  EXPECT_EQ(complaint("a.json", R"({"n_layer": 12})"), "a.json: 'n_embd' or 'hidden_size' is missing");
  EXPECT_EQ(complaint("a.json", R"({"n_layer": -1})"), "a.json: 'n_layer' must be a whole number from 1, got -1");
  EXPECT_EQ(complaint("a.json", "[1"), "a.json is not a JSON object");
  EXPECT_THROW(find_transformer("none.json"), UserError);
  EXPECT_THROW(find_transformer("gpt81b"), UserError);
  EXPECT_THROW(transformer_model("huge", {.layers = 1, .hidden = int64_t{1} << 40, .heads = 1, .sequence = 1, .vocabulary = 1}), UserError);
}

TEST(NetworkModel, SaysWhichGridsCannotHoldIt) {
  const auto model = transformer_model("gpt20b", find_gpt_preset("gpt20b").shape);
  EXPECT_EQ(model.misfit({.x = 16}), "heads % x");  // 56 heads
  EXPECT_EQ(model.misfit({.y = 5}), "hidden % y");
  EXPECT_EQ(model.misfit({.x = 8, .y = 7, .z = 3, .data = 5}), std::nullopt);
}

}  // namespace
}  // namespace axonn
