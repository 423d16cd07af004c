#include "axonn/layers/linear.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ops/_unsafe_view.h>

#include "axonn/core/error.hpp"
#include "kernels/cpu/row_dots.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/ops/linear_chain.hpp"
#include "layers/ops/low_rank.hpp"
#include "layers/operation.hpp"
#include "layers/ops/row_sum.hpp"

namespace axonn {
namespace {

// Shapes: k = in features, n = out features, m = rows of this rank; k/in means "split over the in
// axis".
class LinearOperation : public Operation {
 public:
  LinearOperation(Context& context, const LinearImpl& layer, ShardedParameter weight,
                  std::optional<ShardedParameter> bias, std::optional<LowRank> low_rank, std::shared_ptr<RowTail> tail,
                  std::function<Pending(const RowProduct&)> elsewhere, std::shared_ptr<std::function<void()>> finish)
      : context_(context),
        in_axis_(layer.in_axis()),
        out_axis_(layer.out_axis()),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        low_rank_(std::move(low_rank)),
        tail_(std::move(tail)),
        elsewhere_(std::move(elsewhere)),
        finish_(std::move(finish)) {}

  std::string name() const override { return "linear " + weight_.name(); }

  Tensor forward(const Tensor& input /* (..., k/in) */) override {
    input_.keep(input);
    const auto weight = weight_.gathered();  // (n/out, k/in)
    const Tensor rows = rows_of(input);
    const bool dots = context_->scheduler().phase() == Phase::generate && has_row_dots(rows, *weight);
    const int64_t m = rows.size(0), n = weight->size(0);
    const Tensor bias = bias_ ? *bias_->gathered() : Tensor();
    const auto narrow = low_rank_ ? low_rank_->weights() : LowRank::Weights();
    const auto with_low_rank = [&](const Tensor& to, const Tensor& some) {
      if (low_rank_) low_rank_->add_to(to, some, narrow);
      return to;
    };
    const auto all = [&](const Tensor& added) {
      const auto plain = [&] {
        return gemm(kernel(GemmUse::output, rows, *weight), rows, *weight,
                    added.defined() ? std::optional(added) : std::nullopt);
      };
      return with_low_rank(dots ? row_dots(rows, *weight, added) : plain(), rows);
    };
    const auto summed = [&] {
      const GemmKernel mm = kernel(GemmUse::output, rows, *weight);
      const RowProduct product{.rows = m,
                               .width = n,
                               .options = rows.options(),
                               .all = [&] { return all({}); },
                               .some =
                                   [&](const Tensor& to, Range range) {
                                     const Tensor some = rows.narrow(0, range.begin, range.size());
                                     gemm_into(mm, to, some, *weight, /*add=*/false);
                                     with_low_rank(to, some);
                                   },
                               .owner = {}};
      return sum_with_tail(context_, product, in_axis_, weight_.name(), bias, tail_, elsewhere_);
    };
    const bool whole = context_->shape()[in_axis_] == 1 && !elsewhere_;
    TailedRows output = whole ? with_tail(all(bias), tail_) : summed();  // (m, n/out)
    *finish_ = std::move(output.finish);
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = n;
    return at::_unsafe_view(output.output, shape);  // not a view: autograd would refuse the in-place adds in finish_
  }

  Tensor backward(const Tensor& grad_output /* (..., n/out) */, bool input_needed) override {
    const Tensor input = input_.get(), rows = rows_of(input), grad = rows_of(tail_->gradient(grad_output));
    const Tensor grad_narrow = low_rank_ ? low_rank_->grad_of_narrow(grad) : Tensor();
    Pending grad_input{Tensor()};
    if (input_needed) {
      auto weight = weight_.gathered();
      const Tensor product = gemm(kernel(GemmUse::grad_input, rows, *weight), grad, weight->t());
      if (low_rank_) low_rank_->add_gradient(product, grad_narrow);
      grad_input = context_->scheduler().all_reduce(product, out_axis_, weight_.name());
    }
    weight_.reduce([&](const Tensor& block, bool add) {
      gemm_into(kernel(GemmUse::grad_weight, rows, block), block, grad.t(), rows.t(), add);
    });
    if (bias_) bias_->reduce([&](const Tensor& block, bool add) { put_sum(block, grad, add); });
    if (low_rank_) low_rank_->reduce(context_->scheduler(), in_axis_, out_axis_, grad, grad_narrow, rows);
    return input_needed ? grad_input.wait().view(input.sizes()) : Tensor();
  }

  void release() override {
    input_.reset();
    tail_->release();
  }

 private:
  GemmKernel kernel(GemmUse use, const Tensor& rows, const Tensor& weight) const {
    return context_->options().gemm(use, rows.size(0), weight.size(0), weight.size(1));
  }

  ContextHandle context_;
  Axis in_axis_;
  Axis out_axis_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
  std::optional<LowRank> low_rank_;
  std::shared_ptr<RowTail> tail_;
  std::function<Pending(const RowProduct&)> elsewhere_;  // empty: the sum is the output
  std::shared_ptr<std::function<void()>> finish_;        // the rest of the forward
  Saved input_;
};

}  // namespace

LinearImpl::LinearImpl(Context& context, LinearOptions options)
    : ShardedModule(context),
      options_(std::move(options)),
      weight_(register_sharded("weight", {.spec = weight_spec(), .initial = options_.weight_initial})) {
  AXONN_CHECK(options_.in > 0 && options_.out > 0, "layers.linear", "in and out must be positive, got ", options_.in,
              " and ", options_.out);
  add_bias();
  add_low_rank();
}

LinearImpl::LinearImpl(Context& context, LinearOptions options, ShardedParameter weight)
    : ShardedModule(context), options_(std::move(options)), weight_(std::move(weight)) {
  AXONN_CHECK(weight_.spec() == weight_spec(), "layers.linear", "a tied weight must be ", weight_spec().to_string(),
              ", got ", weight_.spec().to_string());
  add_bias();
}

ShardSpec LinearImpl::weight_spec() const {
  return {.dims = {output_layout().dim(options_.out), Dim::split(options_.in, in_axis())}, .over_z = true};
}

void LinearImpl::add_bias() {
  if (options_.bias)
    bias_ = register_sharded(
        "bias",
        {.spec = {.dims = {output_layout().dim(options_.out)}}, .initial = options_.bias_initial, .decay = false});
}

void LinearImpl::add_low_rank() {
  const int64_t rank = options_.low_rank.rank;
  AXONN_CHECK(rank >= 0 && (rank == 0 || !options_.pad_output), "layers.linear",
              "a low rank must not be negative, nor be that of a layer with padding; choose 0, got ", rank);
  if (rank == 0) return;
  const auto a_rows = Dim::whole(static_cast<int64_t>(segments().size()) * rank);
  const auto a_initial = Initial::uniform(1 / std::sqrt(static_cast<double>(options_.in)));
  low_rank_a_ = register_sharded(
      "lora_a", {.spec = {.dims = {a_rows, Dim::split(options_.in, in_axis())}}, .initial = a_initial, .decay = false});
  low_rank_b_ = register_sharded(
      "lora_b", {.spec = {.dims = {output_layout().dim(options_.out), Dim::whole(rank)}}, .decay = false});
}

std::optional<LowRank> LinearImpl::low_rank() const {
  if (!low_rank_a_) return std::nullopt;
  std::vector<int64_t> widths;
  for (const int64_t size : segments())
    widths.push_back(Dim::split(size, out_axis()).local_size(context().shape(), context().at()));
  return LowRank(*low_rank_a_, *low_rank_b_, options_.low_rank, std::move(widths));
}

Tensor LinearImpl::forward(const Tensor& input) {
  const Value given{input, options_.in, options_.input.value_or(input_layout())};
  const Value result = forward(redistribute(context(), given, input_layout()));
  return options_.output ? redistribute(context(), result, *options_.output).tensor : result.tensor;
}

Value LinearImpl::forward(const Value& input) { return launch(input).wait(); }

PendingValue LinearImpl::launch(const Value& input) { return launch(input, nullptr, {}); }

PendingValue LinearImpl::launch(const Value& input, const AddTo& add) { return launch(input, &add, {}); }

void LinearImpl::check_addition() const {
  AXONN_CHECK(!options_.pad_output, "layers.linear",
              "an output with padding cannot be added to a stream; choose pad_output = false");
  AXONN_CHECK(
      options_.adds_bias, "layers.linear",
      "a layer that leaves its bias to the next operation cannot add its output to a stream; choose adds_bias = "
      "true");
}

void LinearImpl::check_input(const Value& input) const {
  check_layout(input, options_.in, input_layout(), "layers.linear");
  const int64_t width = input_layout().dim(options_.in).local_size(context().shape(), context().at());
  AXONN_CHECK(input.tensor.size(-1) == width, "layers.linear", "input must hold ", width, " of the ", options_.in,
              " features on this rank (", input.layout.to_string(), "), got ", input.tensor.size(-1));
}

bool LinearImpl::has_epilogues(const Tensor& input, double dropout) const {
  constexpr int64_t kColumns = 8;  // cuBLASLt's epilogues take that many together
  return input.is_cuda() && input.element_size() == 2 && input.numel() > 0 && dropout == 0 && bias_ && !low_rank_a_ &&
         options_.adds_bias && options_.in % kColumns == 0 && options_.out % kColumns == 0 &&
         context().shape().x == 1 && context().shape().y == 1 && context().options().kernels.epilogues;
}

bool LinearImpl::joins(const LinearImpl& before, const Value& input, double dropout) const {
  return before.has_epilogues(input.tensor, 0) && has_epilogues(input.tensor, dropout);
}

PendingValue LinearImpl::launch_joined(LinearImpl& before, const Value& input, const AddTo& add) {
  check_addition();
  before.check_input(input);
  check_layout(add.stream, options_.out, output_layout(), "layers.linear");
  const Tensor& stream = add.stream.tensor;
  auto operation = linear_chain({{before.weight_, *before.bias_}, {weight_, *bias_}}, stream.detach());
  const Tensor output =
      record(std::move(operation), input.tensor, {&before.weight_, &*before.bias_, &weight_, &*bias_}, {stream});
  return {{output, options_.out, output_layout()}, [] {}};
}

PendingValue LinearImpl::launch(const Value& input, const AddTo* add, const SumElsewhere& elsewhere) {
  if (add != nullptr) check_addition();
  check_input(input);
  const auto finish = std::make_shared<std::function<void()>>([] {});
  const std::optional<ShardedParameter> bias = options_.adds_bias ? bias_ : std::nullopt;
  const Tensor stream = add != nullptr ? add->stream.tensor : Tensor();
  const at::IntArrayRef sizes = input.tensor.sizes();
  const auto tail = make_tail(context(), add, feature_dropout(context(), add), output_layout(), options_.out,
                              sizes.slice(0, sizes.size() - 1), "layers.linear");
  std::unique_ptr<Operation> operation;
  if (!elsewhere && has_epilogues(input.tensor, add != nullptr ? add->dropout : 0))
    operation = linear_chain({{weight_, *bias}}, stream.defined() ? stream.detach() : Tensor());
  else
    operation = std::make_unique<LinearOperation>(context(), *this, weight_, bias, low_rank(), tail, elsewhere, finish);
  std::vector<const ShardedParameter*> parameters = {&weight_};
  for (const std::optional<ShardedParameter>* more :
       std::initializer_list<const std::optional<ShardedParameter>*>{&bias, &low_rank_a_, &low_rank_b_})
    if (*more) parameters.push_back(&**more);
  const Tensor output = record(std::move(operation), input.tensor, parameters, {stream});
  return {{output, options_.out, output_layout()}, std::move(*finish)};
}

}  // namespace axonn
