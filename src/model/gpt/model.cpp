#include "axonn/model/gpt/model.hpp"

#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/gelu.hpp"
#include "axonn/layers/interleave.hpp"
#include "axonn/layers/loss.hpp"

namespace axonn {
namespace {

// A module without its own forward, for the dots in GPT-2's names.
std::shared_ptr<torch::nn::Module> folder(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

// On CPUs gelu() adds the bias; on GPUs the product does it without a launch of its own.
LinearOptions before_gelu(const Context& context, LinearOptions options) {
  options.adds_bias = !context.options().device.is_cpu();
  return options;
}

Value gelu_after(const LinearImpl& layer, const Value& value) {
  return layer.adds_bias() ? gelu(value) : gelu(value, layer.bias());
}

AttentionOptions named(AttentionOptions options, std::string name) {
  options.dropout_name = std::move(name);
  return options;
}

Linear make_head(Context& context, const GptPlan& plan, bool tied, Embedding& tokens) {
  return tied ? Linear(context, plan.head, tokens->weight()) : Linear(context, plan.head);
}

}  // namespace

GptBlock::GptBlock(Context& context, const GptPlan& plan, const GptConfig& config, const std::string& name)
    : context_(context),
      attention_(named(plan.attention, name + ".attn.probabilities")),
      dropout_(config.dropout),
      name_(name),
      norm_1_(context, plan.norm),
      norm_2_(context, plan.norm),
      qkv_(context, plan.qkv),
      attention_out_(context, plan.attention_out),
      mlp_up_(context, before_gelu(context, plan.mlp_up)),
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
  const auto add_to = [&](const Value& to, const char* branch) {
    return AddTo{.stream = to, .dropout = probability, .name = name_ + branch};
  };
  const auto branch = [](BlockRows& rows, LayerNorm& norm, const Value& from) {
    auto [passed, normalised] = norm->branch(from);
    rows.stream = std::move(passed);
    return normalised;
  };
  const bool joined = mlp_down_->joins(*mlp_up_, stream, probability);
  return interleave(context_, {stream},
                    {[&](BlockRows& rows) { rows.coming = qkv_->launch(branch(rows, norm_1_, rows.inputs[0])); },
                     [&](BlockRows& rows) {
                       rows.coming = attention_out_->launch(attention(context_, rows.coming.wait(), attention_),
                                                            add_to(rows.stream, ".attn"));
                     },
                     [&](BlockRows& rows) {
                       const Value input = branch(rows, norm_2_, rows.coming.wait());
                       rows.coming = joined ? PendingValue(input, [] {}) : mlp_up_->launch(input);
                     },
                     [&](BlockRows& rows) {
                       const Value input = rows.coming.wait();
                       const AddTo add = add_to(rows.stream, ".mlp");
                       rows.coming = joined ? mlp_down_->launch_joined(*mlp_up_, input, add)
                                            : mlp_down_->launch(gelu_after(*mlp_up_, input), add);
                     },
                     [&](BlockRows& rows) { rows.stream = rows.coming.wait(); }});
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
    blocks_.push_back(
        blocks->register_module(number, std::make_shared<GptBlock>(context, plan, config, "h." + number)));
  }
  register_module("ln_f", norm_.ptr());
  register_module("head", head_.ptr());
}

Value Gpt::forward(const at::Tensor& ids) {
  Value stream = axonn::dropout(context_, positions_(tokens_(ids)), is_training() ? config_.dropout : 0, "embedding");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto run = [block = blocks_[i].get()](const std::vector<Value>& inputs) { return block->forward(inputs[0]); };
    stream = config_.checkpointed(static_cast<int64_t>(i))
                 ? activation_checkpoint(context_, run, {stream}, {config_.checkpoint_offload})
                 : run({stream});
  }
  return head_(norm_(stream));
}

at::Tensor Gpt::loss_sum(const at::Tensor& ids, const at::Tensor& targets) {
  return cross_entropy_sum(context_, forward(ids), targets);
}

}  // namespace axonn
