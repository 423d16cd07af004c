#include "axonn/layers/dropout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

class DropoutOperation : public Operation {
 public:
  explicit DropoutOperation(Tensor mask) : mask_(std::move(mask)) {}
  std::string name() const override { return "dropout"; }
  Tensor forward(const Tensor& input) override { return input * mask_; }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output * mask_; }
  void release() override { mask_.reset(); }

 private:
  Tensor mask_;
};

void check_probability(double probability) {
  AXONN_CHECK(probability >= 0 && probability < 1, "layers.dropout", "probability must be in [0, 1), got ",
              probability);
}

// On a CPU, the origin is known.
Context::Samples samples_of(const Context& context) {
  AXONN_CHECK(context.samples(), "layers.dropout",
              "dropout follows the numbers of the samples, and nobody said which they are: call "
              "context.set_samples({.seed = ..., .first = "
              "...}) before the forward of every step");
  Context::Samples samples = *context.samples();
  if (samples.origin.defined() && samples.origin.is_cpu())
    samples.first += std::exchange(samples.origin, Tensor()).item<int64_t>();
  return samples;
}

// Rows that are this rank's tokens of divided sequences: of a sample both runs, which are equally
// long, then those of the next one.
void place_by_runs(DropoutMask& mask, const std::vector<TokenRun>& runs, int64_t first_sample, int64_t sequence) {
  const int64_t features = mask.inner_stride;
  mask.sample = mask.outer_stride = sequence * features;
  mask.first = first_sample * mask.sample + runs[0].place * features;
  mask.middle = 2;
  mask.inner = runs[0].rows.size();
  mask.middle_stride = (runs[1].place - runs[0].place) * features;
}

const int64_t* pointer_to(const Tensor& origin) {
  return origin.defined() ? origin.const_data_ptr<int64_t>() : nullptr;
}

}  // namespace

std::optional<DropoutDraw> feature_dropout(const Context& context, const Value& value, double probability,
                                           const std::string& name) {
  check_probability(probability);
  if (probability == 0) return {};
  const Context::Samples samples = samples_of(context);
  const Tensor& tensor = value.tensor;
  const Layout& layout = value.layout;
  const bool divided = !layout.rows.empty();
  const int64_t width = tensor.size(-1), rows = width == 0 ? 0 : tensor.numel() / width,
                all = divided ? c10::multiply_integers(layout.rows) : rows,
                rows_a_sample = all / std::max<int64_t>(1, divided ? layout.rows[0] : tensor.size(0)),
                first_row = divided ? layout.my_rows(context).begin : 0;
  DropoutDraw result{.mask = {.seed = samples.seed,
                              .stream = philox_stream("dropout", name),
                              .probability = probability,
                              .rows = rows,
                              .width = width,
                              .first = (samples.first * rows_a_sample + first_row) * value.features,
                              .origin = pointer_to(samples.origin),
                              .sample = rows_a_sample * value.features,
                              .inner = rows,
                              .inner_stride = value.features},
                     .held = {}};
  if (const int64_t ranks = context.options().forward.context; ranks > 1 && rows > 0) {
    place_by_runs(result.mask, my_runs(context, rows_a_sample), samples.first, ranks * rows_a_sample);
    result.mask.first_row = first_row;
  }
  for (const auto& each : layout.dim(value.features).local_ranges(context.shape(), context.at()))
    result.held.push_back({each.local_begin, each.global.begin, each.global.size()});
  return result;
}

std::optional<DropoutDraw> feature_dropout(const Context& context, const AddTo* add) {
  return add == nullptr ? std::nullopt : feature_dropout(context, add->stream, add->dropout, add->name);
}

Value dropout(Context& context, const Value& value, double probability, const std::string& name) {
  const auto what = feature_dropout(context, value, probability, name);
  if (!what) return value;
  return {record(std::make_unique<DropoutOperation>(draw(*what, value.tensor)), value.tensor), value.features,
          value.layout};
}

Tensor attention_dropout(const Context& context, const Tensor& like, double probability, const std::string& name,
                         const ProbabilitiesPlace& place) {
  check_probability(probability);
  if (probability == 0) return {};
  const Context::Samples samples = samples_of(context);
  const int64_t local_heads = like.size(1), queries = like.size(2), keys = like.size(3);
  const int64_t of_head = place.sequence * place.sequence, of_sample = place.heads * of_head;
  const int64_t first_sample = samples.first + place.first_sample;
  const DropoutDraw what{
      .mask = {.seed = samples.seed,
               .stream = philox_stream("dropout", name),
               .probability = probability,
               .rows = like.size(0) * local_heads * queries,
               .width = keys,
               .first = first_sample * of_sample + place.first_head * of_head + place.first_query * place.sequence,
               .origin = pointer_to(samples.origin),
               .sample = of_sample,
               .middle = local_heads,
               .inner = queries,
               .outer_stride = of_sample,
               .middle_stride = of_head,
               .inner_stride = place.sequence},
      .held = {{0, place.first_key, keys}}};
  return draw(what, like);
}

Tensor dropout_attention(Context& context, const Tensor& probabilities, double probability, const std::string& name,
                         const ProbabilitiesPlace& place) {
  const Tensor factors = attention_dropout(context, probabilities, probability, name, place);
  if (!factors.defined()) return probabilities;
  return record(std::make_unique<DropoutOperation>(factors), probabilities);
}

}  // namespace axonn
