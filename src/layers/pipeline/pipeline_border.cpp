#include "axonn/layers/pipeline/pipeline_border.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include "axonn/comm/same_settings.hpp"
#include "axonn/core/error.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "layers.pipeline_border";
constexpr std::string_view kForward = "border", kBackward = "border backward";

Axis other(Axis axis) { return axis == Axis::x ? Axis::y : Axis::x; }

std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += detail::concatenate(text.empty() ? "" : " ", rank);
  return text;
}

void check_stages(const Environment& environment, const PipelineStages& stages) {
  AXONN_CHECK(!stages.first.empty() && stages.first.size() == stages.second.size(), kWhere,
              "rank i of one stage exchanges slices with rank i of the next, so both need equally many ranks, got ",
              stages.first.size(), " and ", stages.second.size());
  std::vector<int> all = stages.first;
  all.insert(all.end(), stages.second.begin(), stages.second.end());
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  AXONN_CHECK(twice == all.end(), kWhere, "rank ", twice == all.end() ? 0 : *twice, " is twice in the stages (",
              text_of(stages.first), ") and (", text_of(stages.second), "); give every rank one place in one stage");
  AXONN_CHECK(all.front() >= 0 && all.back() < environment.ranks(), kWhere, "the stages (", text_of(stages.first),
              ") and (", text_of(stages.second), ") name ranks outside this job of ", environment.ranks());
}

std::vector<int> ranks_of(const Context& context, const Environment& environment) {
  std::vector<int> ranks = context.options().job_ranks;
  for (int rank = 0; ranks.size() < static_cast<size_t>(environment.ranks()) && context.options().job_ranks.empty();
       ++rank)
    ranks.push_back(rank);
  return ranks;
}

// Its input is the Linear's output, whose values are in the second stage.
class Send : public Operation {
 public:
  explicit Send(SlicedTransfer& transfer) : transfer_(transfer) {}
  std::string name() const override { return "send to the next stage"; }
  Tensor forward(const Tensor& input) override {
    like_ = at::empty({0}, input.options());
    sizes_ = input.sizes().vec();
    return at::zeros({}, input.options());
  }
  Tensor backward(const Tensor&, bool) override {
    const Tensor gradient = at::empty(sizes_, like_.options());
    transfer_.receive(gradient, kBackward).wait();
    return gradient;
  }

 private:
  SlicedTransfer& transfer_;
  std::vector<int64_t> sizes_;
  Tensor like_;
};

// Its input is a placeholder, so that autograd runs backward.
class Receive : public Operation {
 public:
  Receive(SlicedTransfer& transfer, Tensor into) : transfer_(transfer), into_(std::move(into)) {}
  std::string name() const override { return "receive from the last stage"; }
  Tensor forward(const Tensor&) override {
    transfer_.receive(into_, kForward).wait();
    return std::exchange(into_, {});
  }
  Tensor backward(const Tensor& grad_output, bool) override {
    transfer_.send(grad_output.contiguous(), kBackward).wait();
    return {};
  }

 private:
  SlicedTransfer& transfer_;
  Tensor into_;
};

}  // namespace

PipelineBorder::PipelineBorder(Environment& environment, Context& context, PipelineStages stages)
    : environment_(environment), context_(context) {
  check_stages(environment, stages);
  AXONN_CHECK(context.options().device.is_cpu(), kWhere,
              "needs tensors on a CPU: NCCL has no fused collectives; move activations between stages with "
              "Communicator::send");
  const std::vector<int> mine = ranks_of(context, environment);
  first_ = mine == stages.first;
  AXONN_CHECK(first_ || mine == stages.second, kWhere, "the context is over the ranks ", text_of(mine),
              ", and the stages are (", text_of(stages.first), ") and (", text_of(stages.second),
              "); give one of them as ContextOptions::job_ranks");
  const auto at = static_cast<size_t>(std::ranges::find(mine, environment.rank()) - mine.begin());
  pair_ = {.axes = {}, .ranks = {stages.first[at], stages.second[at]}, .index = first_ ? 0 : 1};
  const int before = static_cast<int>(first_ ? 0 : stages.first.size());
  Group both{.axes = {}, .ranks = stages.first, .index = before + static_cast<int>(at)};
  both.ranks.insert(both.ranks.end(), stages.second.begin(), stages.second.end());
  const ContextOptions& options = context.options();
  check_same_settings(*environment.communicator(both, "both stages"),
                      {{"grid", context.shape().to_string()},
                       {"axis order", to_string(options.order)},
                       {"placement", text_of(options.placement)},
                       {"context", std::to_string(options.forward.context)},
                       {"dtype", c10::toString(options.dtype)}});
}

SlicedTransfer& PipelineBorder::over(Axis in_axis) {
  if (const auto made = transfers_.find(in_axis); made != transfers_.end()) return made->second;
  const Group& inside = context_->communicators()[in_axis].group();
  auto among = environment_.communicator(inside, "stage " + std::string(to_string(in_axis)));
  auto across = environment_.communicator(pair_, "border " + std::string(to_string(in_axis)));
  return transfers_.emplace(in_axis, SlicedTransfer(std::move(among), std::move(across))).first->second;
}

Tensor PipelineBorder::send(Linear& layer, const Value& input) { return send(layer, input, nullptr); }
Tensor PipelineBorder::send(Linear& layer, const Value& input, const AddTo& add) { return send(layer, input, &add); }

Tensor PipelineBorder::send(Linear& layer, const Value& input, const AddTo* add) {
  AXONN_CHECK(first_, kWhere, "rank ", environment_.rank(),
              " is in the second stage, which receives; send() is for "
              "the first");
  AXONN_CHECK(!context_->scheduler().checkpointing(), kWhere,
              "an activation checkpoint would run its block twice and send twice; end the checkpointed block before "
              "the layer that sends");
  SlicedTransfer& transfer = over(layer->in_axis());
  Request sending;
  const auto to_next_stage = [&](const RowProduct& product) {
    transfer.send_whole(at::tensor({product.rows, product.width}, at::kLong));
    const Tensor output = product.all();
    sending = transfer.reduce_and_send(output, product.owner, kForward);
    return Pending(output);
  };
  const Value value = layer->launch(input, add, to_next_stage).wait();
  sending.wait();
  return record(std::make_unique<Send>(transfer), value.tensor);
}

Value PipelineBorder::receive(at::IntArrayRef rows, int64_t features, const Layout& layout) {
  AXONN_CHECK(!first_, kWhere, "rank ", environment_.rank(),
              " is in the first stage, which sends; receive() is for "
              "the second");
  AXONN_CHECK(layout.axis == Axis::x || layout.axis == Axis::y, kWhere,
              "what arrives is laid out as the output of the Linear that sends it, over x or y; got '",
              layout.to_string(), "'");
  AXONN_CHECK(layout.rows.empty(), kWhere, "whole rows arrive, and layout '", layout.to_string(),
              "' divides them; receive them in layout.with_rows({}), then redistribute(context, value, layout)");
  const Axis in_axis = other(*layout.axis);
  SlicedTransfer& transfer = over(in_axis);
  const int64_t count = c10::multiply_integers(rows),
                width = layout.dim(features).local_size(context_->shape(), context_->at());
  const Tensor words = at::empty({2}, at::kLong);
  transfer.receive_whole(words).wait();
  const auto* const sent = words.const_data_ptr<int64_t>();
  AXONN_CHECK(sent[0] == count && sent[1] == width, kWhere, "rank ", pair_.ranks[0], " sends ", sent[0], " rows of ",
              sent[1], " features, and this rank expects ", count, " of ", width,
              "; give the rows, features and layout of the Linear that sends");
  std::vector<int64_t> shape = rows.vec();
  shape.push_back(width);
  const auto options = at::TensorOptions(context_->options().dtype);
  const Tensor placeholder = at::empty({0}, options).requires_grad_(at::GradMode::is_enabled());
  return {record(std::make_unique<Receive>(transfer, at::empty(shape, options)), placeholder), features, layout};
}

}  // namespace axonn
