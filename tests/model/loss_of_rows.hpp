#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "axonn/layers/loss.hpp"
#include "axonn/model/decoder/model.hpp"

namespace axonn::test {

// The part of a batch's mean loss that the rows from `first` on have. Row r is 5 r, 5 r + 1, ...,
// modulo the vocabulary, and the targets are the tokens that follow. `batch`: rows of the whole
// grid. Every rank calls it, in a step.
inline at::Tensor loss_of_rows(Context& context, Decoder& model, int64_t first, int64_t count, int64_t batch) {
  const int64_t sequence = model.config().shape.sequence, vocabulary = model.config().shape.vocabulary;
  const at::Tensor ids =
      (at::arange(first, first + count).unsqueeze(1) * 5 + at::arange(sequence)).remainder(vocabulary);
  return mean(model.loss_sum(ids, (ids + 1).remainder(vocabulary)), static_cast<double>(batch * sequence), context);
}

}  // namespace axonn::test
