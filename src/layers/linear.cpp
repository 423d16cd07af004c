#include "axonn/layers/linear.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/ops/linear_chain.hpp"
#include "layers/ops/linear_operation.hpp"
#include "layers/ops/row_sum.hpp"

namespace axonn {
namespace {

// The sizes of the output's dims before its features, on this rank.
std::vector<int64_t> output_leading(const Context& context, const Value& input, const Layout& output, bool elsewhere) {
  std::vector<int64_t> leading = input.leading();
  if (output.rows.empty()) return leading;
  AXONN_CHECK(output.rows == leading && !elsewhere, "layers.linear", "a stream whose rows are divided must have the ",
              "rows of the output, ", at::IntArrayRef(leading), ", got ", at::IntArrayRef(output.rows),
              ", and cannot go to another stage; redistribute(context, value, layout) gathers its rows");
  return {output.my_rows(context).size()};
}

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
  check_layout(input, options_.in, input_layout().with_rows(input.layout.rows), "layers.linear");
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
  const Layout output = add != nullptr ? output_layout().with_rows(add->stream.layout.rows) : output_layout();
  const std::vector<int64_t> leading = output_leading(context(), input, output, elsewhere != nullptr);
  const auto tail =
      make_tail(context(), add, feature_dropout(context(), add), output, options_.out, leading, "layers.linear");
  std::unique_ptr<Operation> operation;
  if (!elsewhere && has_epilogues(input.tensor, add != nullptr ? add->dropout : 0))
    operation = linear_chain({{weight_, *bias}}, stream.defined() ? stream.detach() : Tensor());
  else
    operation = linear_operation(context(), {.in_axis = in_axis(),
                                             .out_axis = out_axis(),
                                             .input = input.layout,
                                             .output = output,
                                             .leading = leading,
                                             .weight = weight_,
                                             .bias = bias,
                                             .low_rank = low_rank(),
                                             .tail = tail,
                                             .elsewhere = elsewhere,
                                             .finish = finish});
  std::vector<const ShardedParameter*> parameters = {&weight_};
  for (const std::optional<ShardedParameter>* more :
       std::initializer_list<const std::optional<ShardedParameter>*>{&bias, &low_rank_a_, &low_rank_b_})
    if (*more) parameters.push_back(&**more);
  const Tensor result = record(std::move(operation), input.tensor, parameters, {stream});
  return {{result, options_.out, output}, std::move(*finish)};
}

}  // namespace axonn
