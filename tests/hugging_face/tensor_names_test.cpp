#include "axonn/hugging_face/tensor_names.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace axonn {
namespace {

const DecoderShape kLlama = rotated({.layers = 2,
                                     .hidden = 48,
                                     .heads = 6,
                                     .kv_heads = 2,
                                     .mlp_hidden = 80,
                                     .sequence = 64,
                                     .vocabulary = 131,
                                     .gated = true});

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies());
}

// Rows of the parts follow each other and fill the tensor; the elements are those of the network.
void expect_whole(const DecoderShape& shape, const char* model_type) {
  int64_t ours = 0, theirs = 0;
  for (const DecoderTensor& tensor : tensor_names(shape, model_type)) {
    int64_t row = 0;
    for (const FilePart& part : tensor.parts) {
      EXPECT_EQ(part.rows.begin, row) << part.name;
      row = part.rows.end;
      theirs += product(part.shape);
    }
    EXPECT_EQ(row, tensor.shape[0]) << tensor.name;
    ours += product(tensor.shape);
  }
  EXPECT_EQ(ours, parameters_of(shape)) << model_type;
  EXPECT_EQ(theirs, ours) << model_type;
}

TEST(TensorNames, HoldEveryParameterOnce) {
  DecoderShape shape = kLlama;
  expect_whole(shape, "llama");
  shape.tied_head = true;
  expect_whole(shape, "mistral");
  shape.qkv_bias = true;
  expect_whole(shape, "qwen2");
  shape.projection_bias = shape.mlp_bias = true;
  expect_whole(shape, "llama");
  shape = kLlama;
  shape.qk_norm = true;
  shape.head_dim = 20;
  expect_whole(shape, "qwen3");
  expect_whole({.layers = 2, .hidden = 48, .heads = 4, .sequence = 32, .vocabulary = 131}, "gpt2");
  expect_whole({.layers = 2, .hidden = 48, .heads = 4, .sequence = 32, .vocabulary = 131, .tied_head = true}, "gpt2");
}

TEST(TensorNames, StackWhatOneProductReads) {
  const auto all = tensor_names(kLlama, "llama");
  const auto qkv = std::ranges::find(all, "h.1.attn.qkv.weight", &DecoderTensor::name);
  ASSERT_NE(qkv, all.end());
  ASSERT_EQ(qkv->parts.size(), 3);
  EXPECT_EQ(qkv->parts[1].name, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(qkv->parts[1].rows, (Range{48, 64}));
  EXPECT_EQ(qkv->parts[1].shape, (std::vector<int64_t>{16, 48}));
  const auto fc = std::ranges::find(all, "h.0.mlp.fc.weight", &DecoderTensor::name);
  EXPECT_EQ(fc->parts[0].name, "model.layers.0.mlp.gate_proj.weight");  // gates before values
  EXPECT_EQ(fc->parts[1].rows, (Range{80, 160}));
}

TEST(TensorNames, OfOlderFilesAreRead) {
  EXPECT_EQ(usual_name("wte.weight", "gpt2"), "transformer.wte.weight");
  EXPECT_EQ(usual_name("transformer.wte.weight", "gpt2"), "transformer.wte.weight");
  EXPECT_EQ(usual_name("h.0.attn.c_attn.bias", "gpt2"), "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(usual_name("h.0.attn.bias", "gpt2"), "");
  EXPECT_EQ(usual_name("h.0.attn.masked_bias", "gpt2"), "");
  EXPECT_EQ(usual_name("model.layers.0.self_attn.rotary_emb.inv_freq", "llama"), "");
  EXPECT_EQ(usual_name("layers.0.mlp.up_proj.weight", "llama"), "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(usual_name("lm_head.weight", "llama"), "lm_head.weight");
}

}  // namespace
}  // namespace axonn
