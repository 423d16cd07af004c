#pragma once

#include <memory>
#include <optional>

#include "layers/operation.hpp"

namespace axonn {

// This rank's part of a vocabulary.
struct VocabularyPart {
  std::optional<Axis> axis;  // that it is split over
  Range columns;             // the first columns of the logits here, in the vocabulary; padding follows
  int64_t vocabulary = 0;    // entries in all
  int64_t ignored = 0;       // a target whose rows contribute nothing
};

// cross_entropy_sum() of logits (..., n) by the kernels of cross_entropy_rows.hpp. In backward,
// which can run once (UserError), the gradient takes the place of the logits. A target that is no
// entry of the vocabulary makes the loss NaN.
std::unique_ptr<Operation> fused_cross_entropy(Context& context, const VocabularyPart& part, const Tensor& targets);

}  // namespace axonn
