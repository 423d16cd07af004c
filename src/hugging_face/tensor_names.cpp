#include "axonn/hugging_face/tensor_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace axonn {
namespace {

// Appends tensors of one network.
class Table {
 public:
  // A tensor with the same rows in the file.
  void whole(const std::string& ours, std::vector<int64_t> shape, const std::string& theirs, bool transposed = false) {
    std::vector<int64_t> in_file = shape;
    if (transposed) std::ranges::reverse(in_file);
    const Range rows{0, shape[0]};
    tensors_.push_back({ours, std::move(shape), {{theirs, std::move(in_file), rows, transposed}}});
  }
  // One whose rows are divided among several. `columns` 0: a vector.
  void stacked(const std::string& ours, int64_t columns, const std::vector<std::pair<std::string, int64_t>>& parts) {
    DecoderTensor tensor{.name = ours, .shape = {0}, .parts = {}};
    if (columns > 0) tensor.shape.push_back(columns);
    for (const auto& [name, rows] : parts) {
      std::vector<int64_t> shape = tensor.shape;
      shape[0] = rows;
      tensor.parts.push_back({name, std::move(shape), {tensor.shape[0], tensor.shape[0] + rows}, false});
      tensor.shape[0] += rows;
    }
    tensors_.push_back(std::move(tensor));
  }
  std::vector<DecoderTensor> take() { return std::move(tensors_); }

 private:
  std::vector<DecoderTensor> tensors_;
};

std::vector<DecoderTensor> of_gpt2(const DecoderShape& shape) {
  const int64_t h = shape.hidden, m = shape.mlp();
  Table table;
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    for (const char* part : {".weight", ".bias"}) table.whole(ours + part, {h}, theirs + part);
  };
  const auto linear = [&](const std::string& ours, const std::string& theirs, int64_t out, int64_t in) {
    table.whole(ours + ".weight", {out, in}, theirs + ".weight", /*transposed=*/true);
    table.whole(ours + ".bias", {out}, theirs + ".bias");
  };
  table.whole("wte.weight", {shape.vocabulary, h}, "transformer.wte.weight");
  table.whole("wpe.weight", {shape.learned_positions(), h}, "transformer.wpe.weight");
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string ours = "h." + std::to_string(i) + ".", theirs = "transformer." + ours;
    norm(ours + "ln_1", theirs + "ln_1");
    linear(ours + "attn.qkv", theirs + "attn.c_attn", 3 * h, h);
    linear(ours + "attn.proj", theirs + "attn.c_proj", h, h);
    norm(ours + "ln_2", theirs + "ln_2");
    linear(ours + "mlp.fc", theirs + "mlp.c_fc", m, h);
    linear(ours + "mlp.proj", theirs + "mlp.c_proj", h, m);
  }
  norm("ln_f", "transformer.ln_f");
  if (!shape.tied_head) table.whole("head.weight", {shape.vocabulary, h}, "lm_head.weight");
  return table.take();
}

std::vector<DecoderTensor> of_llama(const DecoderShape& shape) {
  const int64_t h = shape.hidden, m = shape.mlp(), d = shape.features_of_head(), q = shape.attended(),
                k = shape.keys() * d;
  Table table;
  table.whole("wte.weight", {shape.vocabulary, h}, "model.embed_tokens.weight");
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string ours = "h." + std::to_string(i) + ".", theirs = "model.layers." + std::to_string(i) + ".";
    const auto heads = [&](const std::string& part, int64_t columns) {
      table.stacked(ours + "attn.qkv" + part, columns,
                    {{theirs + "self_attn.q_proj" + part, q},
                     {theirs + "self_attn.k_proj" + part, k},
                     {theirs + "self_attn.v_proj" + part, k}});
    };
    const auto halves = [&](const std::string& part, int64_t columns) {
      table.stacked(ours + "mlp.fc" + part, columns,
                    {{theirs + "mlp.gate_proj" + part, m}, {theirs + "mlp.up_proj" + part, m}});
    };
    table.whole(ours + "ln_1.weight", {h}, theirs + "input_layernorm.weight");
    heads(".weight", h);
    if (shape.qkv_bias) heads(".bias", 0);
    if (shape.qk_norm)
      for (const char* norm : {"q_norm.weight", "k_norm.weight"})
        table.whole(ours + "attn." + norm, {d}, theirs + "self_attn." + norm);
    table.whole(ours + "attn.proj.weight", {h, q}, theirs + "self_attn.o_proj.weight");
    if (shape.projection_bias) table.whole(ours + "attn.proj.bias", {h}, theirs + "self_attn.o_proj.bias");
    table.whole(ours + "ln_2.weight", {h}, theirs + "post_attention_layernorm.weight");
    halves(".weight", h);
    if (shape.mlp_bias) halves(".bias", 0);
    table.whole(ours + "mlp.proj.weight", {h, m}, theirs + "mlp.down_proj.weight");
    if (shape.mlp_bias) table.whole(ours + "mlp.proj.bias", {h}, theirs + "mlp.down_proj.bias");
  }
  table.whole("ln_f.weight", {h}, "model.norm.weight");
  if (!shape.tied_head) table.whole("head.weight", {shape.vocabulary, h}, "lm_head.weight");
  return table.take();
}

}  // namespace

std::vector<DecoderTensor> tensor_names(const DecoderShape& shape, std::string_view model_type) {
  return model_type == "gpt2" ? of_gpt2(shape) : of_llama(shape);
}

std::string usual_name(const std::string& in_file, std::string_view model_type) {
  constexpr std::array<std::string_view, 3> kFollows = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
  if (std::ranges::any_of(kFollows, [&](std::string_view end) { return in_file.ends_with(end); })) return "";
  const std::string prefix = model_type == "gpt2" ? "transformer." : "model.";
  return in_file.starts_with(prefix) || in_file.starts_with("lm_head.") ? in_file : prefix + in_file;
}

}  // namespace axonn
