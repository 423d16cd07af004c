// Ranks divide the rows of a residual stream: outputs and gradients are those of whole rows, every
// policy has the same bits, and what moves is as long as a formula says.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "axonn/layers/blocks/mlp.hpp"
#include "axonn/layers/blocks/residual_stream.hpp"
#include "axonn/layers/blocks/stream_layout.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "layers/stream_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kFeatures = 10, kVocabulary = 13, kLength = 10;

// A decoder without attention, from the same numbers on every grid.
class Network : public torch::nn::Module {
 public:
  Network(Context& context, bool centred, int64_t rank_of_adapters)
      : context_(context),
        tokens_(context, {.vocabulary = kVocabulary, .features = kFeatures}),
        positions_(context, {.length = kLength, .features = kFeatures}),
        norm_(make_norm(context, {.features = kFeatures, .centred = centred})),
        mlp_(context,
             {.up = {.in = kFeatures, .out = 14, .low_rank = {.rank = rank_of_adapters}},
              .down = {.in = 14, .out = kFeatures, .transposed = true, .low_rank = {.rank = rank_of_adapters}}}),
        last_(make_norm(context, {.features = kFeatures, .centred = centred})),
        head_(context, {.in = kFeatures, .out = kVocabulary, .bias = false, .pad_output = true}) {
    register_module("tokens", tokens_.ptr());
    register_module("positions", positions_.ptr());
    register_module("norm", norm_);
    register_module("mlp", mlp_.ptr());
    register_module("last", last_);
    register_module("head", head_.ptr());
  }

  // `places`, if given: those of all tokens.
  Value forward(const at::Tensor& ids, const at::Tensor& places, double probability) {
    const Value tokens = tokens_->forward(ids, stream_layout(context_, Axis::y, ids.sizes()));
    const Value placed = places.defined() ? positions_->forward(tokens, places) : positions_(tokens);
    divided_ = !placed.layout.rows.empty();
    ResidualStream stream(context_, dropout(context_, placed, probability, "embedding"),
                          {.dropout = probability, .name = "block"});
    stream.add(*norm_, *mlp_);
    return head_(last_->forward(stream.wait()));
  }

  bool divided() const { return divided_; }  // in the last forward

 private:
  Context& context_;
  Embedding tokens_;
  Positions positions_;
  std::shared_ptr<NormImpl> norm_;
  Mlp mlp_;
  std::shared_ptr<NormImpl> last_;
  Linear head_;
  bool divided_ = false;
};

struct Case {
  const char* name;
  int64_t batch, sequence;
  bool centred = false;
  double dropout = 0;
  bool places = false;
  int64_t rank_of_adapters = 0;
  bool freezes = false;  // all parameters but the adapters
};

// Rows that divide by x and that do not: 75 of them on grids of 2 and 4 ranks, 96 on others.
std::vector<Case> cases() {
  return {{"rms norms", 16, 6},
          {"layer norms", 16, 6, true},
          {"uneven rows", 15, 5, true},
          {"dropout", 15, 5, true, 0.3},
          {"places", 16, 7, false, 0.3, true},
          {"adapters", 16, 3, true, 0, false, 2},
          {"only adapters", 16, 3, true, 0, false, 2, true}};
}

struct Outcome {
  at::Tensor output;
  std::map<std::string, at::Tensor> gradients;
  std::vector<RequestRecord> over_x;
  LinearCounts products{};
  bool divided = false;
};

Outcome outcome_of(Context& context, const Case& each) {
  auto network = std::make_shared<Network>(context, each.centred, each.rank_of_adapters);
  const auto adapters = [](const std::string& name) { return name.find("lora_") != std::string::npos; };
  const Parameters parameters = each.freezes ? context.materialize(*network, {.seed = 1, .is_trained = adapters})
                                             : context.materialize(*network, 1);
  for (const ShardedParameter& parameter : parameters.list())  // none stays zero
    fill(context, parameter,
         whole_tensor(static_cast<int64_t>(parameter.name().size()), parameter.spec().global_shape()));
  const at::Tensor numbers = at::arange(each.batch * each.sequence, at::kLong).view({each.batch, each.sequence});
  const at::Tensor ids = my_rows(context, (numbers * 5).remainder(kVocabulary)),
                   places = my_rows(context, (numbers * 3).remainder(kLength));
  context.set_samples({.seed = 3, .first = context.row_share().mine * ids.size(0)});
  auto step = context.begin_step();
  const Value result = network->forward(ids, each.places ? places : at::Tensor(), each.dropout);
  result.tensor.backward(my_part(context, whole_tensor(2, {each.batch, each.sequence, kVocabulary}), result.layout));
  step.finish();
  Outcome outcome{.output = result.tensor.detach(),
                  .over_x = context.scheduler().traffic().records(),
                  .products = context.scheduler().linear_counts(),
                  .divided = network->divided()};
  std::erase_if(outcome.over_x, [](const RequestRecord& record) { return record.axes != AxisSet(Axis::x); });
  for (const ShardedParameter& parameter : parameters.list())
    outcome.gradients[parameter.name()] = parameter.gradient().clone();
  return outcome;
}

void expect_same_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  EXPECT_TRUE(one.output.equal(other.output)) << what;
  for (const auto& [name, gradient] : one.gradients)
    EXPECT_TRUE(gradient.equal(other.gradients.at(name))) << what << ": " << name;
}

TEST(StreamRowsOnEveryGrid, EqualWholeRows) {
  for (const GridShape& grid : grids_with_x())
    for (const Case& each : cases()) {
      const std::string what = std::string(each.name) + " on " + grid.to_string();
      Context whole = context_with(grid, NormRows::off), divided = context_with(grid, NormRows::on);
      const Outcome expected = outcome_of(whole, each), got = outcome_of(divided, each);
      EXPECT_TRUE(got.divided && !expected.divided) << what;
      expect_near(got.output, expected.output, what);
      for (const auto& [name, gradient] : expected.gradients)
        expect_near(got.gradients.at(name), gradient, what + ": " + name);
    }
}

// The sum beside the product rounds as the whole product does, but for the parts of the product.
TEST(StreamRowsOnEveryGrid, HaveTheSameBitsUnderEveryPolicyAndEqualNumbersUnderEverySchedule) {
  const Case each = {"layer norms", 24, 10, true, 0.3};  // rows that divide: others are summed after the product
  for (const GridShape& grid : grids_with_x()) {
    Context plain = context_with(grid, NormRows::on);
    const Outcome expected = outcome_of(plain, each);
    for (const LinearSchedule linear : {LinearSchedule::mm_ar_c, LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap}) {
      const std::string what = std::string(to_string(linear)) + " on " + grid.to_string();
      Context all = context_with(grid, NormRows::on, OverlapPolicy::all(), linear),
              none = context_with(grid, NormRows::on, OverlapPolicy::none(), linear);
      const Outcome overlapped = outcome_of(all, each), blocking = outcome_of(none, each);
      expect_same_bits(overlapped, blocking, what);
      expect_near(overlapped.output, expected.output, what);
      const LinearSchedule ran = linear == LinearSchedule::mm_ar_c ? LinearSchedule::mm_rs_c_ag : linear;
      EXPECT_GE(overlapped.products[static_cast<size_t>(ran)], 1) << what;
    }
  }
}

// m h elements: the embedding's and the MLP's output are scattered; the inputs of MLP and head are
// gathered, and again in backward, where their gradients are scattered and those of both outputs
// gathered. Besides, the gradients of norms and positions are summed.
TEST(StreamRowsOnEveryGrid, MoveAsManyBytesAsAFormulaSays) {
  for (const GridShape& grid : grids_with_x())
    for (const bool centred : {false, true}) {
      const Case each = {"bytes", 16, 6, centred};
      Context whole = context_with(grid, NormRows::off), divided = context_with(grid, NormRows::on);
      const auto bytes_of = [](const Outcome& outcome) {
        int64_t bytes = 0;
        for (const RequestRecord& record : outcome.over_x) bytes += record.bytes;
        return bytes;
      };
      const RowShare share = divided.row_share();
      const int64_t rows = 6 * even_part(16, static_cast<int>(share.groups), static_cast<int>(share.mine)).size();
      const int64_t features = Dim::split(kFeatures, Axis::y).local_size(grid, divided.at());
      const int64_t vectors = 2 * (centred ? 2 : 1) + kLength;
      EXPECT_EQ(bytes_of(outcome_of(whole, each)), 8 * 4 * rows * features) << grid.to_string();
      EXPECT_EQ(bytes_of(outcome_of(divided, each)), 8 * (10 * rows + vectors) * features) << grid.to_string();
    }
}

}  // namespace
}  // namespace axonn
