// A config.json that is damaged or written by somebody else is read, or refused by a UserError;
// what was read can be written and read again.
#include <gtest/gtest.h>

#include "axonn/hugging_face/config_file.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

const std::string kFiles[] = {
    R"({"model_type": "llama", "hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
        "vocab_size": 131, "rms_norm_eps": 1e-05, "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
        "tie_word_embeddings": false, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}})",
    R"({"model_type": "qwen3", "hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 20, "max_position_embeddings": 64,
        "vocab_size": 131, "rope_theta": 1000000.0, "rope_scaling": null, "sliding_window": 7,
        "use_sliding_window": true, "max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"]})",
    R"({"model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": 32, "n_inner": null,
        "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new", "vocab_size": 131})"};

TEST(ConfigFuzz, FilesAreReadOrRefused) {
  const test::Scratch scratch;
  size_t good = 0, bad = 0;
  fuzz::rounds(3000, [&](fuzz::Random& random) {
    scratch.file("config.json", fuzz::changed(kFiles[random.below(std::size(kFiles))], random));
    fuzz::read([&] { read_config_sizes(scratch / "config.json"); });
    const bool taken = fuzz::read([&] {
      const HuggingFaceConfig config = read_config(scratch / "config.json");
      if (config.shape.layers <= 100) tensor_names(config.shape, config.model_type);
      scratch.file("again.json", write_config(config.shape, "float32", config.text).text);
      EXPECT_EQ(parameters_of(read_config(scratch / "again.json").shape), parameters_of(config.shape));
    });
    ++(taken ? good : bad);
  });
  EXPECT_GT(good, 0u);
  EXPECT_GT(bad, 0u);
}

}  // namespace
}  // namespace axonn
