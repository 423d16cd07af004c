#include "axonn/model/unet/model.hpp"

#include <cmath>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/blocks/interleave.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"

namespace axonn {
namespace {

Value add(const Value& a, const Value& b) { return {a.tensor + b.tensor, a.features, a.layout}; }

Value silu(const Value& value) {
  return value.map([](const at::Tensor& tensor) { return at::silu(tensor); });
}

// (batch, channels), to broadcast over (batch, height, width, channels).
at::Tensor per_pixel(const at::Tensor& tensor) { return tensor.unsqueeze(1).unsqueeze(1); }

class Residual : public UnetModule {
 public:
  Residual(Context& context, const UnetShape& shape, const UnetStage& stage, double dropout)
      : Residual(context, parallelize_residual(shape, stage), stage, dropout) {}

  Value forward(const Value& input, const UnetEmbedding& embedding) override {
    return interleave(context_, {input, embedding.over(embedding_->in_axis())},
                      {[&](BlockRows& rows) { rows.coming = in_->launch(norm_in_->activated(rows.inputs[0])); },
                       [&](BlockRows& rows) {
                         const Value hidden = rows.coming.wait();
                         const Value last = normed(hidden, embedding_(rows.inputs[1]).tensor);
                         rows.coming = shortcut_ ? out_->launch(last) : out_->launch(last, {.stream = rows.inputs[0]});
                       },
                       [&](BlockRows& rows) {
                         if (!shortcut_) {
                           rows.stream = rows.coming.wait();
                           return;
                         }
                         // It runs beside the sum of out_, so it is no part of that operation.
                         const Value from = redistribute(context_, shortcut_(rows.inputs[0]), out_->output_layout());
                         rows.stream = add(from, rows.coming.wait());
                       }});
  }

 private:
  Residual(Context& context, const UnetResidualPlan& plan, const UnetStage& stage, double dropout)
      : context_(context),
        scaled_(!plan.embedding.segments.empty()),
        dropout_(dropout),
        name_(stage.name),
        norm_in_(context, plan.norm_in),
        in_(context, plan.in),
        embedding_(context, plan.embedding),
        norm_out_(context, plan.norm_out),
        out_(context, plan.out) {
    register_module("norm_in", norm_in_.ptr());
    register_module("in", in_.ptr());
    register_module("embedding", embedding_.ptr());
    register_module("norm_out", norm_out_.ptr());
    register_module("out", out_.ptr());
    if (!plan.shortcut) return;
    shortcut_ = Conv2d(context, *plan.shortcut);
    register_module("shortcut", shortcut_.ptr());
  }

  // The time embedding scales and shifts the norm's output, or is added before the norm.
  Value normed(const Value& hidden, const at::Tensor& time) {
    const Value result = scaled_
                             ? norm_out_->activated(hidden, time)
                             : norm_out_->activated({hidden.tensor + per_pixel(time), hidden.features, hidden.layout});
    return axonn::dropout(context_, result, is_training() ? dropout_ : 0, name_);
  }

  ContextHandle context_;
  bool scaled_;
  double dropout_;
  std::string name_;
  GroupNorm norm_in_;
  Conv2d in_;
  Linear embedding_;
  GroupNorm norm_out_;
  Conv2d out_;
  Conv2d shortcut_{nullptr};
};

class AttentionStage : public UnetModule {
 public:
  AttentionStage(Context& context, const UnetAttentionPlan& plan)
      : context_(context), norm_(context, plan.norm), attention_(context, plan.attention) {
    register_module("norm", norm_.ptr());
    register_module("qkv", attention_->qkv().ptr());  // not below the name of a module between
    register_module("projection", attention_->out().ptr());
  }

  Value forward(const Value& input, const UnetEmbedding&) override {
    ResidualStream residual(context_, input);
    residual.add(*norm_, *attention_);
    return residual.wait();
  }

 private:
  ContextHandle context_;
  GroupNorm norm_;
  SelfAttention attention_;
};

class Resampling : public UnetModule {
 public:
  Resampling(Context& context, const UnetStage& stage) : conv_(context, parallelize_resampling(stage)) {
    register_module("conv", conv_.ptr());
  }

  Value forward(const Value& input, const UnetEmbedding&) override { return conv_(input); }

 private:
  Conv2d conv_;
};

std::shared_ptr<UnetModule> make_module(Context& context, const UnetConfig& config, const UnetStage& stage) {
  switch (stage.kind) {
    case UnetStage::Kind::residual:
      return std::make_shared<Residual>(context, config.shape, stage, config.dropout);
    case UnetStage::Kind::attention:
      return std::make_shared<AttentionStage>(context, parallelize_attention(config.shape, stage));
    default:
      return std::make_shared<Resampling>(context, stage);
  }
}

// Registers a module under a name with dots: one parent module for every part of the name.
void register_path(torch::nn::Module& root, const std::string& path, std::shared_ptr<torch::nn::Module> module) {
  torch::nn::Module* folder = &root;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string name = path.substr(begin, dot - begin);
    const auto children = folder->named_children();
    const auto* found = children.find(name);
    folder =
        found != nullptr ? found->get() : folder->register_module(name, std::make_shared<torch::nn::Module>()).get();
    begin = dot + 1;
  }
  folder->register_module(path.substr(begin), std::move(module));
}

// Cosines and sines of the time at wavelengths from 2 pi to 10000 * 2 pi: (batch, features).
at::Tensor waves(const at::Tensor& times, int64_t features) {
  const at::Tensor numbers = at::arange(features / 2, at::TensorOptions().dtype(at::kDouble).device(times.device()));
  const at::Tensor angles =
      times.to(at::kDouble).unsqueeze(1) * (numbers * (-2 * std::log(10000.0) / static_cast<double>(features))).exp();
  return at::cat({angles.cos(), angles.sin()}, 1);
}

}  // namespace

Unet::Unet(Context& context, const UnetConfig& config)
    : context_(context),
      config_((check_unet(config, context.shape()), config)),
      time_in_(context, parallelize_unet(config.shape).time_in),
      time_out_(context, parallelize_unet(config.shape).time_out),
      first_(context, parallelize_unet(config.shape).first),
      last_norm_(context, parallelize_unet(config.shape).last_norm),
      last_(context, parallelize_unet(config.shape).last) {
  AXONN_CHECK(
      context.options().forward.norm_rows != NormRows::on, "model.unet",
      "norm_rows divides the rows of a decoder's stream, and the norms of a UNet need whole images; choose off");
  AXONN_CHECK(context.options().forward.context == 1, "model.unet",
              "context divides the sequences of a decoder, and a UNet has whole images; choose context = 1, got ",
              context.options().forward.context);
  register_path(*this, "time.in", time_in_.ptr());
  register_path(*this, "time.out", time_out_.ptr());
  if (config.shape.classes > 0) {
    classes_ = Embedding(context, parallelize_unet(config.shape).classes);
    register_module("classes", classes_.ptr());
  }
  register_module("first", first_.ptr());
  for (const UnetStage& stage : unet_stages(config.shape)) {
    if (stage.kind == UnetStage::Kind::first || stage.kind == UnetStage::Kind::last) continue;
    stages_.push_back({make_module(context, config_, stage), stage.skip > 0, stage.kept});
    register_path(*this, stage.name, stages_.back().module);
  }
  register_module("last_norm", last_norm_.ptr());
  register_module("last", last_.ptr());
}

Value Unet::embed_classes(const at::Tensor& classes) {
  const at::Tensor none = classes.eq(kNoClass);
  return classes_(classes.masked_fill(none, 0)).map([&](const at::Tensor& rows) {
    return rows.masked_fill(none.unsqueeze(1), 0);
  });
}

UnetEmbedding Unet::embed(const at::Tensor& times, const at::Tensor& classes) {
  AXONN_CHECK(classes.defined() == (config_.shape.classes > 0), "model.unet", "the network has ", config_.shape.classes,
              " classes, got ", classes.defined() ? "some" : "none");
  const Value time = whole_input(context_, waves(times, config_.shape.base));
  Value embedding = time_out_(silu(time_in_(redistribute(context_, time, time_in_->input_layout()))));
  if (classes.defined()) embedding = add(embedding, embed_classes(classes));
  embedding = silu(embedding);
  return {.over_x = redistribute(context_, embedding, Layout::over(Axis::x)), .over_y = embedding};
}

at::Tensor Unet::forward(const at::Tensor& images, const at::Tensor& times, const at::Tensor& classes) {
  const UnetEmbedding embedding = embed(times, classes);
  Value stream = first_(Value{images, config_.shape.channels, Layout::replicated()});
  std::vector<Value> kept = {stream};
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (stage.takes_skip) {
      stream = concatenate(kept.back(), stream);
      kept.pop_back();
    }
    const auto run = [module = stage.module.get()](const std::vector<Value>& inputs) {
      return module->forward(inputs[0], {.over_x = inputs[1], .over_y = inputs[2]});
    };
    const std::vector<Value> inputs = {stream, embedding.over_x, embedding.over_y};
    stream = config_.checkpointed(static_cast<int64_t>(i))
                 ? activation_checkpoint(context_, run, inputs, {config_.checkpoint_offload})
                 : run(inputs);
    if (stage.kept) kept.push_back(stream);
  }
  return last_(last_norm_->activated(stream)).tensor;
}

}  // namespace axonn
