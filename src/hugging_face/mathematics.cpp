#include "hugging_face/mathematics.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

void check_activation(const ConfigJson& file, std::string_view key, std::string_view usual,
                      std::initializer_list<std::string_view> known) {
  const std::string activation = file.word_or(key, usual);
  if (std::ranges::find(known, activation) == known.end())
    file.refuse_to_train("with the activation \"" + activation + "\"");
}

void check_weights(const ConfigJson& file) {
  if (file.has("quantization_config")) file.refuse_to_train("with quantized weights");
}

// transformers 5 has rope_parameters with everything in it; version 4 has rope_theta and
// rope_scaling, whose type was called "type" at first.
DecoderShape with_rotation(const ConfigJson& file, DecoderShape shape) {
  const auto parameters = file.find_object("rope_parameters"), scaling = file.find_object("rope_scaling");
  shape.rope_theta = file.positive_or("rope_theta", 10000);
  if (parameters) shape.rope_theta = parameters->positive_or("rope_theta", shape.rope_theta);
  const ConfigJson& rope = parameters ? *parameters : scaling ? *scaling : file;
  if (rope.has("full_attention") || rope.has("sliding_attention"))
    file.refuse_to_train("with rotations that differ between blocks");
  for (const ConfigJson* each : {&file, &rope})
    if (each->positive_or("partial_rotary_factor", 1) != 1)
      file.refuse_to_train("that rotates a part of each head (partial_rotary_factor)");
  if (!parameters && !scaling) return shape;
  const std::string type = rope.word_or("rope_type", rope.word_or("type", "default"));
  if (type == "default") return shape;
  if (type != "llama3") file.refuse_to_train("with rotations of rope_type \"" + type + "\"");
  shape.rope_factor = rope.positive("factor");
  shape.rope_low = rope.positive("low_freq_factor");
  shape.rope_high = rope.positive("high_freq_factor");
  shape.rope_original = rope.size("original_max_position_embeddings");
  return shape;
}

// The last blocks are those with a window, if there are any.
void check_windows(const ConfigJson& file, const DecoderShape& shape) {
  if (shape.window == 0) return;
  const auto places = file.find_places("layer_types", "sliding_attention");
  if (places && !places->empty() && places->front() != shape.layers - static_cast<int64_t>(places->size()))
    file.refuse_to_train("whose blocks with a window are not its last ones (layer_types)");
}

}  // namespace

DecoderShape mathematics_of_gpt2(const ConfigJson& file, DecoderShape shape) {
  check_weights(file);
  check_activation(file, "activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  if (!file.flag_or("scale_attn_weights", true) || file.flag_or("scale_attn_by_inverse_layer_idx", false))
    file.refuse_to_train("whose attention is scaled in another way (scale_attn_weights)");
  shape.norm_epsilon = file.positive_or("layer_norm_epsilon", 1e-5);
  return shape;
}

DecoderShape mathematics_of_llama(const ConfigJson& file, DecoderShape shape) {
  check_weights(file);
  check_activation(file, "hidden_act", "silu", {"silu", "swish"});
  check_windows(file, shape);
  shape.norm_epsilon = file.positive_or("rms_norm_eps", 1e-6);
  return with_rotation(file, shape);
}

}  // namespace axonn
