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

// Heads of keys and values, (batch, k, kv, f) each, as views.
KeysValues by_key_head(const at::Tensor& keys, const at::Tensor& values);

// Keys and values, or their gradients, in one tensor: its sizes for so many tokens, and halves.
std::vector<int64_t> sizes_of_both(const KeysValues& like, int64_t tokens);
KeysValues halves(const at::Tensor& both);

}  // namespace axonn
