#include "layers/blocks/row_parts.hpp"

#include <algorithm>

#include <ATen/ops/cat.h>

#include "axonn/core/error.hpp"

namespace axonn {

RowParts::RowParts(Context& context, const std::vector<Value>& inputs, bool divided) : context_(context) {
  const int64_t rows = inputs.front().tensor.size(0),
                parts = divided ? std::min(context.options().forward.split, rows) : 1;
  if (parts <= 1) {
    inputs_ = {inputs};
    samples_ = {context.samples()};
    return;
  }
  for (const Value& input : inputs) {
    AXONN_CHECK(input.layout.rows.empty(), "layers.blocks", "ranks divide the rows of '", input.layout.to_string(),
                "', and forward.split = ", context.options().forward.split,
                " takes parts of whole rows in turn; choose split = 1, or norm_rows off");
    int64_t first = 0;
    size_t part = 0;
    for (const at::Tensor& some : input.tensor.chunk(parts, 0)) {
      if (inputs_.size() == part) {
        inputs_.emplace_back();
        samples_.push_back(context.samples());
        if (samples_[part]) samples_[part]->first += first;
      }
      inputs_[part++].push_back({some, input.features, input.layout});
      first += some.size(0);
    }
  }
}

void RowParts::each(const std::function<void(size_t)>& work) {
  for (size_t part = 0; part < size(); ++part) {
    const WithSamples of_part(context_, samples_[part]);
    work(part);
  }
}

Value RowParts::joined(const std::vector<Value>& parts) {
  const Value& first = parts.front();
  if (parts.size() == 1) return first;
  std::vector<at::Tensor> rows;
  for (const Value& part : parts) rows.push_back(part.tensor);
  return {at::cat(rows, 0), first.features, first.layout};
}

}  // namespace axonn
