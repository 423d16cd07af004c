#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/network/network_model.hpp"
#include "axonn/network/unet/unet_network.hpp"
#include "axonn/perfmodel/network_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"
#include "axonn/network/unet/unet_presets.hpp"

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
  DecoderShape transformer(const std::string& name, const std::string& text) const {
    return std::get<DecoderShape>(find_network(write(name, text)));
  }
  UnetShape unet(const std::string& name, const std::string& text) const {
    return std::get<UnetShape>(find_network(write(name, text)));
  }
  std::string complaint(const std::string& name, const std::string& text) const {
    const std::string path = write(name, text);
    try {
      find_network(path);
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
  DecoderShape expected = find_decoder_preset("gpt5b").shape;
  expected.sequence = 4096;
  EXPECT_EQ(transformer("a.toml", "[model]\nmodel = 'gpt5b'\nsequence = 4096\n[train]\nbatch = 3\n"), expected);
  const DecoderShape mine = {
      .layers = 2, .hidden = 64, .heads = 4, .mlp_hidden = 96, .sequence = 32, .vocabulary = 100, .tied_head = true};
  EXPECT_EQ(transformer("b.toml", network_toml(mine)), mine);
}

TEST_F(NetworkFile, OfHuggingFaceIsToldByItsModelType) {
  const DecoderShape gpt2 = find_decoder_preset("gpt-124m").shape;
  const std::string sizes = R"("n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";
  EXPECT_EQ(transformer("gpt2.json", R"({"model_type": "gpt2", )" + sizes), gpt2);
  EXPECT_EQ(transformer("gpt2.json", R"({"model_type": "gpt2", "n_inner": 20, )" + sizes).mlp_hidden, 20);
  EXPECT_EQ(transformer("gpt2.json", R"({"model_type": "gpt2", "n_inner": null, )" + sizes).mlp_hidden, 0);
  const auto mistral = std::get<DecoderShape>(find_network(write("mistral.json", R"({"model_type": "mistral",
      "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 16, "intermediate_size": 96,
      "max_position_embeddings": 8192, "vocab_size": 32})")));
  EXPECT_EQ(mistral, rotated({.layers = 2,
                              .hidden = 64,
                              .heads = 16,
                              .kv_heads = 8,
                              .mlp_hidden = 96,
                              .sequence = 8192,
                              .vocabulary = 32,
                              .gated = true,
                              .window = 4096,
                              .windowed_layers = 2,
                              .norm_epsilon = 1e-6}));
}

TEST_F(NetworkFile, OfATransformerIsAGpt2UnlessAKeySaysOtherwise) {
  const std::string sizes = "layers = 2\nhidden = 64\nheads = 4\nsequence = 32\nvocab = 100\n";
  const DecoderShape gpt2 = {.layers = 2, .hidden = 64, .heads = 4, .sequence = 32, .vocabulary = 100};
  EXPECT_EQ(transformer("a.toml", "[model]\n" + sizes + "dropout = 0.1\n"), gpt2);
  DecoderShape llama = rotated(gpt2);
  llama.gated = true;
  EXPECT_EQ(transformer("a.toml", "[model]\n" + sizes + "gated = true\n"), llama);
  EXPECT_EQ(transformer("b.toml", network_toml(llama)), llama);
  EXPECT_EQ(network_toml(gpt2).find("positions"), std::string::npos);  // the trainer does not know it
}

TEST_F(NetworkFile, OfAUnetIsToldByItsPresetOrItsKeys) {
  UnetShape expected = find_unet_preset("unet2b").shape;
  expected.heads = 8;
  EXPECT_EQ(unet("a.toml", "[model]\nmodel = 'unet2b'\nheads = 8\n[train]\nbatch = 3\n"), expected);
  const UnetShape mine = {.image = 16,
                          .base = 64,
                          .multipliers = {1, 3},
                          .blocks = 1,
                          .attention = {},
                          .heads = 2,
                          .groups = 16,
                          .classes = 10,
                          .scale_shift = true,
                          .learned_variance = true};
  EXPECT_EQ(unet("b.toml", network_toml(mine)), mine);
  EXPECT_EQ(complaint("c.toml", "[model]\nbase = 64\nmultipliers = [1, 0]\n"),
            "c.toml:3: 'multipliers' in [model] must be from 1 to 65536, got 0");
  EXPECT_EQ(complaint("c.toml", "[model]\nbase = 64\nmultiplier = 2\n"),
            "c.toml:3: unknown key 'multiplier' in [model]; did you mean 'multipliers'?");
}

TEST_F(NetworkFile, ComplaintsSayWhatIsMissingOrWrong) {
  EXPECT_EQ(complaint("a.toml", "[model]\nlayers = 2\n"), "a.toml: 'hidden' is missing in [model]");
  EXPECT_EQ(complaint("a.toml", "[model]\nmodel = 'gpt5b'\nhiden = 2\n"),
            "a.toml:3: unknown key 'hiden' in [model]; did you mean 'hidden'?");
  EXPECT_EQ(complaint("a.toml", "[model]\nmodel = 'gpt5b'\nlayers = -2\n"),
            "a.toml:3: 'layers' in [model] must be from 1 to 10000, got -2");
  EXPECT_EQ(complaint("a.toml", "[train]\nbatch = 2\n"), "a.toml:1: section [model] is missing");
  EXPECT_EQ(complaint("a.json", R"({"model_type": "gpt2", "n_layer": 12})"),
            "a.json: 'n_embd' is missing, and this network needs it");
  EXPECT_EQ(complaint("a.json", R"({"model_type": "gpt2", "n_layer": -1})"),
            "a.json: 'n_layer' must be a whole number from 1 to 2147483647, got -1");
  EXPECT_EQ(complaint("a.json", "[1"), "a.json is not a JSON object");
  EXPECT_THROW(find_network("none.json"), UserError);
  EXPECT_THROW(find_network("gpt81b"), UserError);
  EXPECT_THROW(
      network_model("huge",
                    DecoderShape{.layers = 1, .hidden = int64_t{1} << 40, .heads = 1, .sequence = 1, .vocabulary = 1}),
      UserError);
}

TEST(NetworkModel, CountsItsBlocks) {
  EXPECT_EQ(network_model("gpt20b", find_decoder_preset("gpt20b").shape).blocks, 32);
  // One level of 3 residual blocks down and 4 up, and residual, attention, residual in the middle.
  const auto flat = network_model("flat", {.multipliers = {1}, .blocks = 3, .attention = {}});
  EXPECT_EQ(flat.blocks, 3 + 3 + 4);
}

TEST(NetworkModel, SaysWhichGridsCannotHoldIt) {
  const auto model = network_model("gpt20b", find_decoder_preset("gpt20b").shape);
  EXPECT_EQ(model.why_impossible({.x = 16}), "heads % x");  // 56 heads
  EXPECT_EQ(model.why_impossible({.y = 5}), "hidden % y");
  EXPECT_EQ(model.why_impossible({.x = 8, .y = 7, .z = 3, .data = 5}), std::nullopt);
}

TEST(NetworkModel, OfAUnetDividesItsChannelsByBothTensorAxesAndItsHeadsWhereAttentionIs) {
  // 768 and 1536 channels, attention at levels 1, 2 and 3.
  const auto model = network_model("unet2b", find_unet_preset("unet2b").shape);
  EXPECT_EQ(model.why_impossible({.x = 5}), "channels % x");
  EXPECT_EQ(model.why_impossible({.y = 512}), "channels % y");
  EXPECT_EQ(model.why_impossible({.x = 8}), "heads % x");  // 4 heads
  EXPECT_EQ(model.why_impossible({.y = 8}), "heads % y");
  EXPECT_EQ(model.why_impossible({.x = 4, .y = 4, .z = 3, .data = 5}), std::nullopt);
  // Attention only in the middle, at the first level: over X.
  const auto flat = network_model("flat", {.multipliers = {1}, .attention = {}});
  EXPECT_EQ(flat.why_impossible({.y = 8}), std::nullopt);
  EXPECT_EQ(flat.why_impossible({.x = 8}), "heads % x");
}

}  // namespace
}  // namespace axonn
