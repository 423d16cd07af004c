// Networks and tokenizers that llama.cpp lacks, and parts of files. tests/gpt/gguf_test.py reads
// whole files.
#include "axonn/model/gguf/write_gguf.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "axonn/hugging_face/tensor_names.hpp"
#include "model/gguf/gguf_tensors.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using namespace test;

// Llama's kind: 2 heads of 4 features.
DecoderShape llama() {
  DecoderShape shape = rotated({.layers = 1, .hidden = 8, .heads = 2, .sequence = 16, .vocabulary = 9});
  shape.gated = true;
  return shape;
}

Json tokenizer_json() {
  return {{"added_tokens", Json::array({{{"id", 3}, {"content", "<|endoftext|>"}, {"special", true}}})},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
}

class WriteGguf : public testing::Test {
 protected:
  // Its tensors hold `value`.
  int64_t write(const DecoderShape& shape, const Json& tokenizer, double value = 1, WriteGgufOptions options = {}) {
    scratch_.file("original/tokenizer.json", tokenizer.dump());
    options.original = scratch_ / "original";
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const DecoderTensor& tensor : tensor_names(shape, shape.positions != 0 ? "gpt2" : "llama"))
      shapes.emplace(tensor.name, tensor.shape);
    return write_gguf(
        file_, shape, [&](const std::string& name) { return at::full(shapes.at(name), value, at::kFloat); }, options);
  }
  void expect_nothing() const {
    EXPECT_FALSE(fs::exists(file_));
    EXPECT_FALSE(fs::exists(file_.string() + ".partial"));
  }

  Scratch scratch_;
  fs::path file_ = scratch_ / "new/model.gguf";
};

TEST_F(WriteGguf, AppearsWhenItIsCompleteWithTheSameBytes) {
  const int64_t bytes = write(llama(), tokenizer_json());
  const std::string first = read(file_);
  EXPECT_EQ(bytes, parameters_of(llama()) * 4);
  EXPECT_GT(std::ssize(first), bytes);
  EXPECT_FALSE(fs::exists(file_.string() + ".partial"));
  EXPECT_USER_ERROR(write(llama(), tokenizer_json()), "exists; name another file, or add --overwrite");
  write(llama(), tokenizer_json(), 1, {.overwrite = true});
  EXPECT_EQ(read(file_), first);
  write(llama(), tokenizer_json(), 2, {.overwrite = true});
  EXPECT_NE(read(file_), first);
}

TEST_F(WriteGguf, LeavesNothingBehindAfterAnError) {
  EXPECT_USER_ERROR(write(llama(), tokenizer_json(), 1e6, {.dtype = at::kHalf}),
                    "token_embd.weight has numbers that are too large for F16");
  expect_nothing();
  EXPECT_USER_ERROR(write(llama(), tokenizer_json(), 1, {.dtype = at::kDouble}), "as fp32, bf16 or fp16, got Double");
  EXPECT_USER_ERROR(write_gguf(file_, llama(), {}, {}), "came without its files", "the run's folder origin");
  EXPECT_USER_ERROR(write_gguf(file_, llama(), {}, {.original = scratch_ / "none"}), "put the file into", "none");
  expect_nothing();
}

TEST_F(WriteGguf, RefusesWhatLlamaCppLacks) {
  struct Case {
    void (*change)(DecoderShape&);
    std::string words;
  };
  const Case cases[] = {
      {[](DecoderShape& shape) { shape.window = 15; }, "architecture llama has no windows of 15 tokens"},
      {[](DecoderShape& shape) { shape.gated = false; }, "an MLP without a gate"},
      {[](DecoderShape& shape) { shape.qkv_bias = true, shape.head_dim = 6; }, "qwen2 has no heads that are not"},
      {[](DecoderShape& shape) {
         shape.qkv_bias = true, shape.rope_factor = 8, shape.rope_high = 4, shape.rope_original = 8;
       },
       "qwen2 has no Llama 3.1's rotations"},
      {[](DecoderShape& shape) { shape.qk_norm = shape.qkv_bias = shape.projection_bias = true; },
       "qwen3 has no biases of attention"},
  };
  for (const Case& one : cases) {
    DecoderShape shape = llama();
    one.change(shape);
    EXPECT_USER_ERROR(write(shape, tokenizer_json()), one.words);
    expect_nothing();
  }
  DecoderShape as_long_as_its_window = llama();
  as_long_as_its_window.window = 16;
  write(as_long_as_its_window, tokenizer_json());
}

TEST_F(WriteGguf, RefusesTokenizersThatLlamaCppLacks) {
  const auto refused = [&](const Json& change, const std::string& words) {
    Json tokenizer = tokenizer_json();
    tokenizer.merge_patch(change);
    EXPECT_USER_ERROR(write(llama(), tokenizer), words);
    expect_nothing();
  };
  refused({{"pre_tokenizer", {{"use_regex", false}}}}, "splits texts as '' and needs merges");
  refused({{"model", {{"ignore_merges", true}}}}, "splits texts as 'gpt2' and ignores merges");
  refused({{"pre_tokenizer", {{"add_prefix_space", true}}}}, "changes texts as this one does");
  refused({{"normalizer", {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}}}}, "changes texts");
  refused({{"model", {{"vocab", {{"c", 9}}}}}}, "has 10 tokens, more than the model's vocabulary of 9");
  refused({{"added_tokens", Json::array({{{"id", 3}, {"content", "<|end|>"}, {"special", true}}})}},
          "do not say which token ends a text");
  refused({{"post_processor",
            {{"type", "TemplateProcessing"},
             {"single", Json::array({{{"SpecialToken", {{"id", "a"}}}},
                                     {{"SpecialToken", {{"id", "a"}}}},
                                     {{"Sequence", {{"id", "A"}}}}})},
             {"special_tokens", {{"a", {{"ids", Json::array({3})}}}}}}}},
          "adds these special tokens before a text");
}

TEST_F(WriteGguf, NamesTheSplitOfTexts) {
  const auto split = [](const std::string& pattern) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  };
  const std::string words = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})", rest = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
                                                                        R"(\s+(?!\S)|\s+)";
  const std::string endings = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
  const Json letters = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json gpt2 = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  struct Case {
    Json first, second;
    bool ignores_merges;
    std::string name;
  };
  for (const Case& one : {Case{{{"type", "Digits"}, {"individual_digits", true}}, gpt2, false, "smollm"},
                          Case{split(endings + words + rest), letters, false, "qwen2"},
                          Case{split(endings + words + "{1,3}" + rest), letters, true, "llama-bpe"},
                          Case{split(endings + words + "{1,3}" + rest), letters, false, "smaug-bpe"}}) {
    Json tokenizer = tokenizer_json();
    tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({one.first, one.second})}};
    tokenizer["model"]["ignore_merges"] = one.ignores_merges;
    write(llama(), tokenizer, 1, {.overwrite = true});
    const std::string bytes = read(file_);
    const size_t key = bytes.find("tokenizer.ggml.pre");
    EXPECT_EQ(bytes.substr(key + 30, one.name.size()), one.name);  // behind the key, a type and a length
  }
}

TEST(GgufTensors, OfLlamaHaveHeadsWithNeighboursInThePlaceOfHalves) {
  const DecoderShape shape = llama();
  const std::vector<DecoderTensor> tensors = tensor_names(shape, "llama");
  for (const char* family : {"llama", "qwen2"}) {
    const GgufNetwork network = gguf_network(shape, family, 16);
    const at::Tensor rows = at::arange(24, at::kFloat).unsqueeze(1).expand({24, 8});
    for (const GgufTensor& tensor : gguf_tensors(network, tensors, at::kHalf)) {
      if (tensor.ours != "h.0.attn.qkv.weight") continue;
      EXPECT_EQ(tensor.dtype, at::kHalf);
      const at::Tensor values = values_of(tensor, rows).select(1, 0) - (tensor.name == "blk.0.attn_k.weight" ? 8 : 0);
      const bool rotated_neighbours = network.architecture == "llama" && tensor.name != "blk.0.attn_v.weight";
      const std::vector<int64_t> order = {0, 2, 1, 3, 4, 6, 5, 7};
      if (rotated_neighbours) {
        EXPECT_TRUE(values.to(at::kLong).equal(at::tensor(order))) << tensor.name << values;
      } else {
        EXPECT_TRUE(values.diff().eq(1).all().item<bool>()) << tensor.name << values;
      }
    }
  }
}

TEST(GgufTensors, SlowerRotationsAreThoseOfLongWaves) {
  DecoderShape shape = llama();
  shape.head_dim = 6;
  shape.rope_theta = 1000;  // waves of 6.3, 63 and 628 tokens
  shape.rope_factor = 8;
  shape.rope_high = 4;
  shape.rope_original = 128;
  const at::Tensor factors = slower_rotations(shape);
  const double kept = (128 / 62.83185307 - 1) / (4 - 1);
  EXPECT_TRUE(factors.allclose(at::tensor({1.0, 1 / ((1 - kept) / 8 + kept), 8.0}).to(at::kFloat))) << factors;
}

}  // namespace
}  // namespace axonn
