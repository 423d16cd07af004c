#include "axonn/model/gpt/model.hpp"

#include <algorithm>

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/loss.hpp"

namespace axonn {
namespace {

Value add(const Value& a, const Value& b) { return {a.tensor + b.tensor, a.features, a.layout}; }

Value gelu(const Value& value) {
  return value.map([](const at::Tensor& tensor) { return at::gelu(tensor, "tanh"); });
}

// A module without a forward of its own, for the dots in GPT-2's names.
std::shared_ptr<torch::nn::Module> folder(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

AttentionOptions named(AttentionOptions options, std::string name) {
  options.dropout_name = std::move(name);
  return options;
}

Linear make_head(Context& context, const GptPlan& plan, bool tied, Embedding& tokens) {
  return tied ? Linear(context, plan.head, tokens->weight()) : Linear(context, plan.head);
}

// Rows that go through a block together. Of several parts one's all-reduces move while another computes.
struct Part {
  Value stream;
  std::optional<Context::Samples> samples;
  ValueToCome coming;
};

std::vector<Part> split(Context& context, const Value& stream, int64_t parts) {
  const int64_t rows = stream.tensor.size(0);
  if (parts == 1 || rows == 1) return {{stream, context.samples(), {}}};
  std::vector<Part> result;
  std::optional<Context::Samples> samples = context.samples();
  for (const at::Tensor& some : stream.tensor.chunk(std::min(parts, rows), 0)) {
    result.push_back({{some, stream.features, stream.layout}, samples, {}});
    if (samples) samples->first += some.size(0);
  }
  return result;
}

Value join(const std::vector<Part>& parts) {
  const Value& first = parts.front().stream;
  if (parts.size() == 1) return first;
  std::vector<at::Tensor> rows;
  for (const Part& part : parts) rows.push_back(part.stream.tensor);
  return {at::cat(rows, 0), first.features, first.layout};
}

}  // namespace

GptBlock::GptBlock(Context& context, const GptPlan& plan, const GptConfig& config, const std::string& name)
    : context_(context),
      attention_(named(plan.attention, name + ".attn.probabilities")),
      dropout_(config.dropout),
      split_(config.split_forward),
      name_(name),
      norm_1_(context, plan.norm),
      norm_2_(context, plan.norm),
      qkv_(context, plan.qkv),
      attention_out_(context, plan.attention_out),
      mlp_up_(context, plan.mlp_up),
      mlp_down_(context, plan.mlp_down) {
  register_module("ln_1", norm_1_.ptr());
  const auto attn = folder(*this, "attn");
  attn->register_module("qkv", qkv_.ptr());
  attn->register_module("proj", attention_out_.ptr());
  register_module("ln_2", norm_2_.ptr());
  const auto mlp = folder(*this, "mlp");
  mlp->register_module("fc", mlp_up_.ptr());
  mlp->register_module("proj", mlp_down_.ptr());
}

Value GptBlock::forward(const Value& stream) {
  const double probability = is_training() ? dropout_ : 0;
  attention_.dropout = probability;
  std::vector<Part> parts = split(context_, stream, split_);
  const auto each = [&](const auto& stage) {
    for (Part& part : parts) {
      const WithSamples of_part(context_, part.samples);
      stage(part);
    }
  };
  const auto dropped = [&](Part& part, const char* branch) {
    return axonn::dropout(context_, part.coming.wait(), probability, name_ + branch);
  };
  each([&](Part& part) { part.coming = qkv_->launch(norm_1_(part.stream)); });
  each([&](Part& part) { part.coming = attention_out_->launch(attention(context_, part.coming.wait(), attention_)); });
  each([&](Part& part) {
    part.stream = add(part.stream, dropped(part, ".attn"));
    part.coming = mlp_up_->launch(norm_2_(part.stream));
  });
  each([&](Part& part) { part.coming = mlp_down_->launch(gelu(part.coming.wait())); });
  each([&](Part& part) { part.stream = add(part.stream, dropped(part, ".mlp")); });
  return join(parts);
}

Gpt::Gpt(Context& context, const GptConfig& config)
    : context_(context),
      config_((check_gpt(config, context.shape()), config)),
      tokens_(context, parallelize_gpt(config).tokens),
      positions_(context, parallelize_gpt(config).positions),
      norm_(context, parallelize_gpt(config).norm),
      head_(make_head(context, parallelize_gpt(config), config.shape.tied_head, tokens_)) {
  const GptPlan plan = parallelize_gpt(config);
  register_module("wte", tokens_.ptr());
  register_module("wpe", positions_.ptr());
  const auto blocks = folder(*this, "h");
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    const std::string number = std::to_string(i);
    blocks_.push_back(blocks->register_module(number, std::make_shared<GptBlock>(context, plan, config, "h." + number)));
  }
  register_module("ln_f", norm_.ptr());
  register_module("head", head_.ptr());
}

Value Gpt::forward(const at::Tensor& ids) {
  Value stream = axonn::dropout(context_, positions_(tokens_(ids)), is_training() ? config_.dropout : 0, "embedding");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto run = [block = blocks_[i].get()](const std::vector<Value>& inputs) { return block->forward(inputs[0]); };
    stream = config_.checkpointed(static_cast<int64_t>(i)) ? activation_checkpoint(context_, run, {stream}, {config_.checkpoint_offload})
                                                           : run({stream});
  }
  return head_(norm_(stream));
}

at::Tensor Gpt::loss_sum(const at::Tensor& ids, const at::Tensor& targets) { return cross_entropy_sum(context_, forward(ids), targets); }

}  // namespace axonn
