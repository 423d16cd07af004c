// LibTorch's operations, which GPUs take, give attention by its formula: windows, later rows,
// documents, dropout.
#include "layers/ops/attention/library_attention.hpp"

#include <limits>
#include <string>
#include <vector>

#include "kernels/plain_attention.hpp"
#include "layers/feature_dropout.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

using namespace test;

struct Case {
  std::string name;
  HeadSizes sizes;
  PlainRules rules = {};  // queries from `first` on, and keys up to the last of them
  double dropout = 0;
};

Results by_libtorch(Context& context, const HeadTensors& heads, const Case& each) {
  const auto& [queries, keys, heads_of_queries, key_heads, features, batch] = each.sizes;
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& one : {heads.queries, heads.keys, heads.values})
    leaves.push_back(one.clone().requires_grad_());
  AttentionTerms terms{
      .sight = each.rules.sight, .heads = heads_of_queries, .dropout = each.dropout, .dropout_name = "probabilities"};
  if (each.rules.added.defined()) {  // rows of all queries of the sequence
    terms.documents = at::zeros({batch, 1, keys, keys}, at::kDouble);
    terms.documents.narrow(2, each.rules.first, queries).copy_(each.rules.added);
    terms.documents.add_(at::full({keys, keys}, -std::numeric_limits<double>::infinity()).triu(1));
  }
  const at::Tensor output = library_attention(context, {leaves[0], leaves[1], leaves[2]}, terms,
                                              {.first = each.rules.first, .sequence = keys})
                                .view(heads.queries.sizes());
  output.backward(heads.grad);
  return {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

TEST(LibraryAttention, IsThatOfItsFormula) {
  Context context(test_environment(), {}, {.dtype = at::kDouble});
  context.set_samples({.seed = 3, .first = 0});
  const HeadSizes all{20, 20, 6, 2}, later{.queries = 8, .keys = 20, .heads = 6, .key_heads = 2},
      many{1100, 1100, 2, 1}, last{.queries = 600, .keys = 1100, .heads = 2, .key_heads = 1};
  std::vector<Case> cases = {
      {"all keys", all, {.sight = {.causal = false}}},
      {"causal", all},
      {"a window", all, {.sight = {.window = 4}}},
      {"later rows", later, {.first = 12}},
      {"later rows in a window", later, {.sight = {.window = 5}, .first = 12}},
      {"several blocks in a window", many, {.sight = {.window = 130}}},
      {"several blocks of later rows", last, {.first = 500}},
      {"documents", all, {.added = documents_mask(all, 0, 7)}},
      {"documents in a window", all, {.sight = {.window = 4}, .added = documents_mask(all, 0, 7)}},
      {"documents of later rows", later, {.sight = {.window = 5}, .first = 12, .added = documents_mask(later, 12, 7)}},
      {"dropout", all, {}, 0.3},
      {"dropout of later rows in a window", later, {.sight = {.window = 5}, .first = 12}, 0.3},
      {"dropout in documents", all, {.added = documents_mask(all, 0, 7)}, 0.3}};
  for (Case& each : cases) {
    const HeadTensors heads = random_heads(each.sizes);
    const auto& [queries, keys, heads_of_queries, key_heads, features, batch] = each.sizes;
    if (each.dropout > 0)
      each.rules.factors = attention_dropout(
          context, at::zeros({batch, heads_of_queries, queries, keys}, at::kDouble), each.dropout, "probabilities",
          {.heads = heads_of_queries, .first_query = each.rules.first, .sequence = keys});
    const Results expected = plain_attention(heads, each.rules), got = by_libtorch(context, heads, each);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(distance(got[i], expected[i]), 1e-12) << each.name << ", result " << i;
  }
}

}  // namespace
}  // namespace axonn
