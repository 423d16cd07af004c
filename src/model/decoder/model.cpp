#include "axonn/model/decoder/model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "axonn/layers/blocks/stream_layout.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/loss.hpp"

namespace axonn {
namespace {

// A module without its own forward, for the dots in GPT-2's names.
std::shared_ptr<torch::nn::Module> folder(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>());
}

SelfAttentionOptions attention_of(SelfAttentionOptions options, const DecoderConfig& config, int64_t block,
                                  std::string name) {
  options.attention.dropout_name = std::move(name);
  options.attention.window = config.shape.window_of(block);
  return options;
}

Linear make_head(Context& context, const DecoderPlan& plan, bool tied, Embedding& tokens) {
  return tied ? Linear(context, plan.head, tokens->weight()) : Linear(context, plan.head);
}

}  // namespace

DecoderBlock::DecoderBlock(Context& context, const DecoderPlan& plan, const DecoderConfig& config, int64_t number)
    : context_(context),
      dropout_(config.dropout),
      name_("h." + std::to_string(number)),
      norm_1_(make_norm(context, plan.norm)),
      attention_(context, attention_of(plan.attention, config, number, name_ + ".attn.probabilities")),
      norm_2_(make_norm(context, plan.norm)),
      mlp_(context, plan.mlp) {
  register_module("ln_1", norm_1_);
  register_module("attn", attention_.ptr());
  register_module("ln_2", norm_2_);
  register_module("mlp", mlp_.ptr());
}

Value DecoderBlock::forward(const Value& stream) {
  ResidualStream residual(
      context_, stream,
      {.dropout = is_training() ? dropout_ : 0, .name = name_, .in_parts = !attention_->needs_all_rows()});
  residual.add(*norm_1_, *attention_);
  residual.add(*norm_2_, *mlp_);
  return residual.wait();
}

Decoder::Decoder(Context& context, const DecoderConfig& config)
    : context_(context),
      config_((check_decoder(config, context.shape()), config)),
      tokens_(context, parallelize_decoder(config).tokens),
      norm_(make_norm(context, parallelize_decoder(config).norm)),
      head_(make_head(context, parallelize_decoder(config), config.shape.tied_head, tokens_)) {
  check_sequence(config.shape.sequence, context.options().forward.context);
  const DecoderPlan plan = parallelize_decoder(config);
  register_module("wte", tokens_.ptr());
  if (plan.positions) {
    positions_ = Positions(context, *plan.positions);
    register_module("wpe", positions_.ptr());
  }
  const auto blocks = folder(*this, "h");
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    const std::string number = std::to_string(i);
    blocks_.push_back(blocks->register_module(number, std::make_shared<DecoderBlock>(context, plan, config, i)));
  }
  register_module("ln_f", norm_);
  register_module("head", head_.ptr());
}

at::Tensor Decoder::mask_of(const at::Tensor& begins, const at::Tensor& like, int64_t tokens) const {
  if (!begins.defined()) return {};
  return document_mask(begins, like, my_places(context_, tokens, begins.device()));
}

Value Decoder::placed(const Value& tokens, const at::Tensor& begins) {
  if (!positions_) return tokens;  // a rotation counts distances, which are the same within a document
  if (!begins.defined()) return positions_(tokens);
  const at::Tensor mine = my_tokens(context_, begins);
  return positions_->forward(tokens, my_places(context_, mine.size(1), mine.device()) - mine);
}

Value Decoder::forward(const at::Tensor& ids, const at::Tensor& begins) {
  const at::Tensor mine = my_tokens(context_, ids);
  const Value tokens = tokens_->forward(mine, stream_layout(context_, Axis::y, mine.sizes()));
  const at::Tensor mask = mask_of(begins, tokens.tensor, mine.size(1));
  Value stream = axonn::dropout(context_, placed(tokens, begins), is_training() ? config_.dropout : 0, "embedding");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto run = [block = blocks_[i].get(), mask](const std::vector<Value>& inputs) {
      const SelfAttentionImpl::WithinDocuments within(block->attention(), mask);
      return block->forward(inputs[0]);
    };
    stream = config_.checkpointed(static_cast<int64_t>(i))
                 ? activation_checkpoint(context_, run, {stream}, {config_.checkpoint_offload})
                 : run({stream});
  }
  return logits_of(stream);
}

Value Decoder::logits_of(const Value& stream) { return head_(norm_->forward(stream)); }

DecodingState Decoder::begin_decoding(int64_t texts, int64_t length) {
  const ContextOptions& options = context_->options();
  const int64_t heads = config_.shape.keys() / context_->shape().x;
  DecodingState state{.blocks = {}, .lengths = std::vector<int64_t>(static_cast<size_t>(texts))};
  for (size_t i = 0; i < blocks_.size(); ++i)
    state.blocks.emplace_back(texts, length, heads, config_.shape.features_of_head(),
                              at::TensorOptions().dtype(options.dtype).device(options.device));
  return state;
}

Value Decoder::decode(const at::Tensor& ids, const std::vector<int64_t>& counts, DecodingState& state) {
  const at::NoGradGuard no_grad;
  const int64_t texts = ids.size(0);
  AXONN_CHECK(!is_training(), "model.decoder", "decode() is for evaluation; call eval() first");
  AXONN_CHECK(static_cast<int64_t>(counts.size()) == texts && counts.size() == state.lengths.size(), "model.decoder",
              "decode() takes ids and a count of every text, got ", texts, " rows and ", counts.size(), " counts of ",
              state.lengths.size(), " texts");
  Value stream = tokens_(ids);
  if (positions_) stream = positions_->forward(stream, state.lengths);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const SelfAttentionImpl::Decoding decoding(blocks_[i]->attention(), state.blocks[i], state.lengths);
    stream = blocks_[i]->forward(stream);
  }
  std::vector<at::Tensor> last;
  for (int64_t text = 0; text < texts; ++text) {
    const int64_t count = counts[static_cast<size_t>(text)];
    AXONN_CHECK(count >= 1 && count <= ids.size(1), "model.decoder", "each text gets 1 to ", ids.size(1),
                " tokens, got ", count, "; fill short rows with any token");
    last.push_back(stream.tensor[text].narrow(0, count - 1, 1));
    state.lengths[static_cast<size_t>(text)] += count;
  }
  const Value logits = logits_of({at::stack(last), stream.features, stream.layout});
  return {logits.tensor.squeeze(1), logits.features, logits.layout};
}

at::Tensor Decoder::loss_sum(const at::Tensor& ids, const at::Tensor& targets, const at::Tensor& begins) {
  return cross_entropy_sum(context_, forward(ids, begins), my_tokens(context_, targets));
}

}  // namespace axonn
