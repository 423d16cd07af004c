#include "axonn/hugging_face/config_file.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Json = nlohmann::json;

const Json kLlama = {{"model_type", "llama"},         {"num_hidden_layers", 2},   {"hidden_size", 48},
                     {"num_attention_heads", 6},      {"num_key_value_heads", 2}, {"intermediate_size", 80},
                     {"max_position_embeddings", 64}, {"vocab_size", 131}};
const Json kScaling = {{"rope_type", "llama3"},
                       {"factor", 4.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 32}};

class ConfigFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto path = scratch_.path() / "config.json";
    std::ofstream(path) << text;
    return path;
  }
  HuggingFaceConfig read(Json config, const Json& changes = Json::object()) {
    config.update(changes);
    return read_config(write(config.dump()));
  }

 private:
  test::Scratch scratch_;
};

TEST_F(ConfigFile, OfBothVersionsOfTransformersIsOneNetwork) {
  Json inside = kScaling;
  inside["rope_theta"] = 5e5;
  const DecoderShape old = read(kLlama, {{"rope_theta", 5e5}, {"rope_scaling", kScaling}}).shape;
  EXPECT_EQ(old, read(kLlama, {{"rope_parameters", inside}}).shape);
  Json first = kScaling;
  first["type"] = first["rope_type"];
  first.erase("rope_type");
  EXPECT_EQ(old, read(kLlama, {{"rope_theta", 5e5}, {"rope_scaling", first}}).shape);
  EXPECT_EQ(old.rope_theta, 5e5);
  EXPECT_EQ(old.rope_factor, 4);
  EXPECT_EQ(old.rope_original, 32);
  EXPECT_EQ(read(kLlama, {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}}).shape.rope_theta, 7);
}

TEST_F(ConfigFile, NamesTheTokensThatEndAText) {
  const auto path = write(R"({"eos_token_id": 2})");
  const auto directory = path.parent_path();
  EXPECT_EQ(read_end_tokens(directory), std::vector<int32_t>{2});
  std::ofstream(directory / "generation_config.json") << R"({"eos_token_id": [128001, 128008]})";
  EXPECT_EQ(read_end_tokens(directory), (std::vector<int32_t>{128001, 128008}));
  std::ofstream(directory / "generation_config.json") << R"({"eos_token_id": null})";
  EXPECT_EQ(read_end_tokens(directory), std::vector<int32_t>{2});
  std::ofstream(directory / "generation_config.json") << R"({"eos_token_id": [1, "2"]})";
  EXPECT_USER_ERROR(read_end_tokens(directory), "generation_config.json: 'eos_token_id' must be a whole number",
                    "got \"2\"");
  EXPECT_EQ(read_end_tokens(directory / "none"), std::vector<int32_t>{});
}

TEST_F(ConfigFile, HasTransformersValuesWhereKeysAreMissing) {
  const DecoderShape llama = read(kLlama).shape;
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.rope_theta, 10000);
  EXPECT_EQ(llama.rope_factor, 1);
  EXPECT_FALSE(llama.tied_head);
  EXPECT_EQ(read(kLlama, {{"rms_norm_eps", 1e-5}}).shape.norm_epsilon, 1e-5);
  EXPECT_EQ(read(kLlama, {{"model_type", "mistral"}}).shape.window, 4096);
  EXPECT_EQ(read(kLlama, {{"model_type", "mistral"}, {"sliding_window", nullptr}}).shape.window, 0);
  EXPECT_EQ(read(kLlama, {{"model_type", "qwen3"}}).shape.features_of_head(), 128);
}

TEST_F(ConfigFile, SaysWhatWeCannotTrain) {
  const auto refused = [&](const Json& changes, const char* words) {
    EXPECT_USER_ERROR(read(kLlama, changes), words, "which cannot be trained yet",
                      "gpt2, llama, mistral, qwen2, qwen3");
  };
  refused({{"model_type", "gemma"}}, "of model_type \"gemma\"");
  refused({{"model_type", "phi3"}}, "of model_type \"phi3\"");
  refused({{"hidden_act", "gelu"}}, "with the activation \"gelu\"");
  refused({{"quantization_config", {{"bits", 4}}}}, "with quantized weights");
  refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "with rotations of rope_type \"linear\"");
  refused({{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}}}, "of rope_type \"yarn\"");
  refused({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}, "with rotations that differ");
  refused({{"partial_rotary_factor", 0.5}}, "rotates a part of each head");
  refused({{"model_type", "mistral"}, {"layer_types", {"sliding_attention", "full_attention"}}}, "not its last ones");
}

TEST_F(ConfigFile, WithBrokenValuesIsOneSentence) {
  EXPECT_USER_ERROR(read(kLlama, {{"rms_norm_eps", "small"}}),
                    "'rms_norm_eps' must be a number above 0, got \"small\"");
  EXPECT_USER_ERROR(read(kLlama, {{"rope_theta", -1}}), "'rope_theta' must be a number above 0");
  EXPECT_USER_ERROR(read(kLlama, {{"hidden_act", 7}}), "'hidden_act' must be a word");
  EXPECT_USER_ERROR(read(kLlama, {{"rope_scaling", 7}}), "'rope_scaling' must be an object");
  EXPECT_USER_ERROR(read(kLlama, {{"rope_scaling", {{"rope_type", "llama3"}}}}), "'factor' is missing");
  EXPECT_USER_ERROR(read(kLlama, {{"hidden_size", 50}}), "hidden must divide by heads");
  EXPECT_USER_ERROR(read_config(write("{")), "is not a JSON object");
  EXPECT_USER_ERROR(read_config(write(std::string(100000, '['))), "is not a JSON object");
}

TEST_F(ConfigFile, IsReadBackAsItWasWritten) {
  DecoderShape shape = rotated({.layers = 2,
                                .hidden = 48,
                                .heads = 6,
                                .kv_heads = 2,
                                .head_dim = 16,
                                .mlp_hidden = 80,
                                .sequence = 64,
                                .vocabulary = 131,
                                .gated = true});
  const auto expect_family = [&](const char* family) {
    const WrittenConfig written = write_config(shape, "bfloat16");
    EXPECT_EQ(written.model_type, family);
    EXPECT_EQ(read_config(write(written.text)).shape, shape) << written.text;
    EXPECT_EQ(Json::parse(written.text)["torch_dtype"], "bfloat16");
    EXPECT_EQ(Json::parse(written.text)["dtype"], "bfloat16");
  };
  expect_family("llama");
  shape.rope_factor = 8, shape.rope_original = 32, shape.rope_theta = 5e5, shape.norm_epsilon = 1e-6;
  expect_family("llama");
  shape.qkv_bias = true;
  expect_family("qwen2");
  shape.window = 7, shape.windowed_layers = 1;
  expect_family("qwen2");
  shape.qkv_bias = false, shape.qk_norm = true;
  expect_family("qwen3");
  shape.qk_norm = false, shape.windowed_layers = 2;
  expect_family("mistral");
  shape = {.layers = 2, .hidden = 48, .heads = 4, .sequence = 32, .vocabulary = 131, .tied_head = true};
  expect_family("gpt2");
}

TEST_F(ConfigFile, KeepsTheFamilyAndTheOtherKeysOfItsOrigin) {
  Json origin = kLlama;
  origin.update({{"model_type", "mistral"}, {"sliding_window", nullptr}, {"bos_token_id", 1}, {"mine", "kept"}});
  const DecoderShape shape = read(origin).shape;
  const WrittenConfig written = write_config(shape, "float32", origin.dump());
  EXPECT_EQ(written.model_type, "mistral");
  EXPECT_EQ(Json::parse(written.text)["mine"], "kept");
  DecoderShape whole = shape;
  whole.head_dim = 8;  // written, where it was left out
  EXPECT_EQ(read_config(write(written.text)).shape, whole);
  EXPECT_EQ(write_config(shape, "float32").model_type, "llama");
}

TEST_F(ConfigFile, IsRefusedForNetworksOfNoFamily) {
  DecoderShape shape = read(kLlama).shape;
  shape.gated = false;
  EXPECT_USER_ERROR(write_config(shape, "float32"), "has an MLP without a gate with rotated heads");
  shape = {.layers = 2, .hidden = 48, .heads = 4, .kv_heads = 2, .sequence = 32, .vocabulary = 131};
  EXPECT_USER_ERROR(write_config(shape, "float32"), "has grouped heads with learned positions");
}

}  // namespace
}  // namespace axonn
