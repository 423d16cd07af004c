#include "axonn/model/decoder/model.hpp"

#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/loss.hpp"

namespace axonn {
namespace {

// A module without its own forward, for the dots in GPT-2's names.
std::shared_ptr<torch::nn::Module> folder(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

SelfAttentionOptions named(SelfAttentionOptions options, std::string name) {
  options.attention.dropout_name = std::move(name);
  return options;
}

Linear make_head(Context& context, const DecoderPlan& plan, bool tied, Embedding& tokens) {
  return tied ? Linear(context, plan.head, tokens->weight()) : Linear(context, plan.head);
}

}  // namespace

DecoderBlock::DecoderBlock(Context& context, const DecoderPlan& plan, const DecoderConfig& config,
                           const std::string& name)
    : context_(context),
      dropout_(config.dropout),
      name_(name),
      norm_1_(make_norm(context, plan.norm)),
      attention_(context, named(plan.attention, name + ".attn.probabilities")),
      norm_2_(make_norm(context, plan.norm)),
      mlp_(context, plan.mlp) {
  register_module("ln_1", norm_1_);
  register_module("attn", attention_.ptr());
  register_module("ln_2", norm_2_);
  register_module("mlp", mlp_.ptr());
}

Value DecoderBlock::forward(const Value& stream) {
  ResidualStream residual(context_, stream, {.dropout = is_training() ? dropout_ : 0, .name = name_});
  residual.add(*norm_1_, *attention_);
  residual.add(*norm_2_, *mlp_);
  return residual.wait();
}

Decoder::Decoder(Context& context, const DecoderConfig& config)
    : context_(context),
      config_((check_decoder(config, context.shape()), config)),
      tokens_(context, parallelize_decoder(config).tokens),
      positions_(context, parallelize_decoder(config).positions),
      norm_(make_norm(context, parallelize_decoder(config).norm)),
      head_(make_head(context, parallelize_decoder(config), config.shape.tied_head, tokens_)) {
  const DecoderPlan plan = parallelize_decoder(config);
  register_module("wte", tokens_.ptr());
  register_module("wpe", positions_.ptr());
  const auto blocks = folder(*this, "h");
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    const std::string number = std::to_string(i);
    blocks_.push_back(
        blocks->register_module(number, std::make_shared<DecoderBlock>(context, plan, config, "h." + number)));
  }
  register_module("ln_f", norm_);
  register_module("head", head_.ptr());
}

Value Decoder::forward(const at::Tensor& ids) {
  Value stream = axonn::dropout(context_, positions_(tokens_(ids)), is_training() ? config_.dropout : 0, "embedding");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto run = [block = blocks_[i].get()](const std::vector<Value>& inputs) { return block->forward(inputs[0]); };
    stream = config_.checkpointed(static_cast<int64_t>(i))
                 ? activation_checkpoint(context_, run, {stream}, {config_.checkpoint_offload})
                 : run({stream});
  }
  return head_(norm_->forward(stream));
}

at::Tensor Decoder::loss_sum(const at::Tensor& ids, const at::Tensor& targets) {
  return cross_entropy_sum(context_, forward(ids), targets);
}

}  // namespace axonn
