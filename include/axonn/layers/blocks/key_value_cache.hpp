#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/attention.hpp"

namespace axonn {

// Keys and values of the tokens so far of some texts, in one attention layer, of this rank's heads.
// Without gradients. Texts may have different lengths.
class KeyValueCache {
 public:
  // Room for `length` tokens of each text. `like`: type and device.
  KeyValueCache(int64_t texts, int64_t length, int64_t heads, int64_t features, const at::TensorOptions& like);

  // Takes the keys and values of new tokens, and returns attention's output for their queries:
  // (texts, tokens, heads, features of a head) -> (texts, tokens, heads * features). The tokens of
  // text b are at positions begins[b], begins[b] + 1 and so on, of which those before are in the
  // cache; what was there from begins[b] on is replaced. A text with fewer new tokens than another
  // has any numbers at the end of its row; its next call begins where its own tokens end. Each
  // query sees the keys up to its own, or of a window of `window` of them. UserError beyond the
  // length.
  at::Tensor attend(const AttentionHeads& heads, const std::vector<int64_t>& begins, int64_t window);
  // Only takes the keys and values.
  void put(const AttentionHeads& heads, const std::vector<int64_t>& begins);

  int64_t length() const { return keys_.size(2); }

 private:
  at::Tensor keys_, values_;  // (texts, heads, length, features of a head)
};

}  // namespace axonn
