#pragma once

#include <string>
#include <vector>

#include "axonn/layers/context.hpp"
#include "kernels/attention_by_blocks.hpp"

namespace axonn {

// The terms of attention of a rank's heads.
struct AttentionTerms {
  Sight sight = {};
  int64_t heads = 0;    // queries' heads of the whole layer
  Axis axis = Axis::x;  // the one that splits them
  double dropout = 0;
  std::string dropout_name = {};
  at::Tensor documents = {};          // document_mask(); undefined: none
  std::vector<TokenRun> masked = {};  // the tokens that its rows are, with all queries among them
};

// The same as rules of blocks of a sequence of so many tokens. Dropout is that of the context's
// samples, whenever a rule is called.
AttentionRules attention_rules(Context& context, const AttentionTerms& terms, int64_t sequence);

// Keys and values, (batch, k, kv, f) each, in one tensor (2, batch, kv, k, f): its sizes, and a
// copy of both.
std::vector<int64_t> sizes_of_both(const at::Tensor& keys);
void put_both(const at::Tensor& both, const at::Tensor& keys, const at::Tensor& values);

}  // namespace axonn
