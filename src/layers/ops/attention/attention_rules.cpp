#include "layers/ops/attention/attention_rules.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/layers/context_handle.hpp"
#include "layers/feature_dropout.hpp"

namespace axonn {

using at::Tensor;

namespace {

// The row of the token at a place.
int64_t row_of(const std::vector<TokenRun>& runs, int64_t place) {
  const auto run =
      std::ranges::find_if(runs, [&](const TokenRun& one) { return one.place <= place && place <= last_of(one); });
  AXONN_ASSERT(run != runs.end(), "no row of the mask is token ", place);
  return run->rows.begin + place - run->place;
}

}  // namespace

AttentionRules attention_rules(Context& context, const AttentionTerms& terms, int64_t sequence) {
  AttentionRules rules{.sight = terms.sight};
  if (terms.documents.defined())
    rules.added = [documents = terms.documents, runs = terms.masked](const AttentionPart& part, const Tensor&) {
      const auto& [queries, keys] = part.block;
      return documents.narrow(0, part.samples.begin, part.samples.size())
          .narrow(2, row_of(runs, queries.place), queries.rows.size())
          .narrow(3, keys.place, keys.rows.size());
    };
  if (terms.dropout > 0)
    rules.dropped = [held = ContextHandle(context), terms, sequence](const AttentionPart& part, const Tensor& like) {
      const int64_t heads = terms.heads / held->shape()[terms.axis];
      return attention_dropout(held, like, terms.dropout, terms.dropout_name,
                               {.first_sample = part.samples.begin,
                                .first_head = heads * held->at()[terms.axis] + part.heads.begin,
                                .heads = terms.heads,
                                .first_query = part.block.queries.place,
                                .first_key = part.block.keys.place,
                                .sequence = sequence});
    };
  return rules;
}

KeysValues by_key_head(const Tensor& keys, const Tensor& values) {
  return {keys.transpose(1, 2), values.transpose(1, 2)};
}

std::vector<int64_t> sizes_of_both(const KeysValues& like, int64_t tokens) {
  const Tensor& keys = like.keys;
  return {2, keys.size(0), keys.size(1), tokens, keys.size(3)};
}

KeysValues halves(const Tensor& both) { return {both[0], both[1]}; }

}  // namespace axonn
