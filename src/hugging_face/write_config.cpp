#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "hugging_face/mathematics.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kWhere = "hugging_face.config";

// Parts of a network that the family has not. Empty: it is of the family.
std::string beyond(const DecoderShape& shape, bool rotated) {
  std::vector<std::string> parts;
  const auto say = [&](bool there, const char* what) {
    if (there) parts.emplace_back(what);
  };
  say(!untrained_parts(shape).empty(), "experts, more norms or other mathematics");
  if (!rotated) {
    say(shape.keys() != shape.heads || shape.attended() != shape.hidden, "grouped heads");
    say(shape.gated, "a gated MLP");
    say(shape.qk_norm, "norms of queries and keys");
    say(shape.window > 0, "windows");
    say(!shape.norm_bias, "norms without bias");
    say(!shape.qkv_bias || !shape.projection_bias || !shape.mlp_bias, "layers without bias");
    return join(parts, ", ");
  }
  say(!shape.gated, "an MLP without a gate");
  say(shape.norm_bias, "norms with bias");
  say(shape.projection_bias && !shape.qkv_bias, "a bias of attention's last layer only");
  if (shape.qk_norm) {
    say(shape.qkv_bias != shape.projection_bias, "norms of queries and keys and a bias of some layers");
    say(shape.mlp_bias, "norms of queries and keys and biases of the MLP");
  } else if (shape.qkv_bias && !shape.projection_bias) {
    say(shape.mlp_bias, "biases of all layers but attention's last");
  } else {
    say(shape.window > 0 && (shape.qkv_bias || shape.mlp_bias), "windows and biases of all layers");
    say(shape.window > 0 && shape.windowed() < shape.layers, "windows in some blocks only");
  }
  return join(parts, ", ");
}

std::string family_of(const DecoderShape& shape) {
  if (shape.positions != 0) return "gpt2";
  if (shape.qk_norm) return "qwen3";
  if (shape.qkv_bias && !shape.projection_bias) return "qwen2";
  return shape.window > 0 ? "mistral" : "llama";
}

std::string class_of(const std::string& family) {
  if (family == "gpt2") return "GPT2LMHeadModel";
  std::string name = family;
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return name + "ForCausalLM";
}

void put_gpt2(Json& file, const DecoderShape& shape) {
  file["n_layer"] = shape.layers;
  file["n_embd"] = shape.hidden;
  file["n_head"] = shape.heads;
  file["n_inner"] = shape.mlp_hidden > 0 && shape.mlp_hidden != 4 * shape.hidden ? Json(shape.mlp_hidden) : Json();
  file["n_positions"] = shape.learned_positions();
  file["layer_norm_epsilon"] = shape.norm_epsilon;
  file["activation_function"] = "gelu_new";
}

void put_rotation(Json& file, const DecoderShape& shape) {
  Json scaling, parameters;
  if (shape.rope_factor > 1) {
    scaling = {{"rope_type", "llama3"},
               {"factor", shape.rope_factor},
               {"low_freq_factor", shape.rope_low},
               {"high_freq_factor", shape.rope_high},
               {"original_max_position_embeddings", shape.rope_original}};
    parameters = scaling;
  } else {
    parameters["rope_type"] = "default";
  }
  parameters["rope_theta"] = shape.rope_theta;
  file["rope_theta"] = shape.rope_theta;
  file["rope_scaling"] = scaling;
  file["rope_parameters"] = parameters;
}

void put_window(Json& file, const DecoderShape& shape, const std::string& family) {
  if (family == "llama") return;
  file["sliding_window"] = shape.window > 0 ? Json(shape.window) : Json();
  if (family == "mistral") return;
  file["use_sliding_window"] = shape.window > 0;
  file["max_window_layers"] = shape.layers - shape.windowed();
  Json types = Json::array();
  for (int64_t block = 0; block < shape.layers; ++block)
    types.push_back(shape.window_of(block) > 0 ? "sliding_attention" : "full_attention");
  file["layer_types"] = types;
}

void put_llama(Json& file, const DecoderShape& shape, const std::string& family) {
  file["num_hidden_layers"] = shape.layers;
  file["hidden_size"] = shape.hidden;
  file["num_attention_heads"] = shape.heads;
  file["num_key_value_heads"] = shape.keys();
  file["head_dim"] = shape.features_of_head();
  file["intermediate_size"] = shape.mlp();
  file["rms_norm_eps"] = shape.norm_epsilon;
  file["hidden_act"] = "silu";
  if (family == "llama" || family == "qwen3") file["attention_bias"] = shape.qkv_bias;
  if (family == "llama") file["mlp_bias"] = shape.mlp_bias;
  put_rotation(file, shape);
  put_window(file, shape, family);
}

// Written anew, but for keys of `file` that say nothing of the network.
Json described(const DecoderShape& shape, const std::string& family, Json file) {
  file["architectures"] = {class_of(family)};
  file["model_type"] = family;
  const char* longest = family == "gpt2" ? "n_positions" : "max_position_embeddings";
  const int64_t before = file.contains(longest) && file[longest].is_number_integer() ? file[longest].get<int64_t>() : 0;
  if (family == "gpt2")
    put_gpt2(file, shape);
  else
    put_llama(file, shape, family);
  if (family != "gpt2") file[longest] = std::max(before, shape.sequence);
  file["vocab_size"] = shape.vocabulary;
  file["tie_word_embeddings"] = shape.tied_head;
  if (!file.contains("use_cache")) file["use_cache"] = true;
  return file;
}

// The same network, whatever the length of its texts.
bool same_network(DecoderShape a, const DecoderShape& b) {
  for (int64_t DecoderShape::* size :
       {&DecoderShape::sequence, &DecoderShape::kv_heads, &DecoderShape::head_dim, &DecoderShape::mlp_hidden,
        &DecoderShape::positions, &DecoderShape::windowed_layers})
    a.*size = b.*size;
  return a == b;
}
bool same_sizes(const DecoderShape& a, const DecoderShape& b) {
  return same_network(a, b) && a.keys() == b.keys() && a.features_of_head() == b.features_of_head() &&
         a.mlp() == b.mlp() && a.learned_positions() == b.learned_positions() && a.windowed() == b.windowed();
}

}  // namespace

WrittenConfig write_config(const DecoderShape& shape, std::string_view dtype, const std::string& original) {
  check_decoder(shape);
  const std::string missing = beyond(shape, shape.positions == 0);
  AXONN_CHECK(missing.empty(), kWhere, "none of Hugging Face's families that we know (", trained_family_names(),
              ") has ", missing, shape.positions == 0 ? " with rotated heads" : " with learned positions",
              ", so this network cannot be written as one; axonn-checkpoint export writes its tensors");
  std::string family = family_of(shape);
  Json file = Json::object();
  if (!original.empty()) {
    const HuggingFaceConfig before = read_config(ConfigJson("the config.json that the run began with", original));
    if (same_sizes(shape, before.shape)) family = before.model_type;
    if (family == before.model_type) file = Json::parse(original);
  }
  file = described(shape, family, std::move(file));
  file["dtype"] = dtype;
  file["torch_dtype"] = dtype;
  return {.model_type = family, .text = file.dump(2) + "\n"};
}

}  // namespace axonn
