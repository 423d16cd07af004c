#include "axonn/layers/interleave.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ops/cat.h>

#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

struct Part {
  BlockRows rows;
  std::optional<Context::Samples> samples;  // that dropout in these rows follows
};

std::vector<Part> split(const Context& context, const std::vector<Value>& inputs) {
  const int64_t rows = inputs.front().tensor.size(0), parts = std::min(context.options().split_forward, rows);
  if (parts <= 1) return {{{.inputs = inputs, .stream = {}, .coming = {}}, context.samples()}};
  std::vector<Part> result;
  for (const Value& input : inputs) {
    int64_t first = 0, place = 0;
    for (const at::Tensor& some : input.tensor.chunk(parts, 0)) {
      if (static_cast<int64_t>(result.size()) == place) {
        Part& part = result.emplace_back();
        part.samples = context.samples();
        if (part.samples) part.samples->first += first;
      }
      result[static_cast<size_t>(place)].rows.inputs.push_back({some, input.features, input.layout});
      first += some.size(0);
      ++place;
    }
  }
  return result;
}

Value join(const std::vector<Part>& parts) {
  const Value& first = parts.front().rows.stream;
  if (parts.size() == 1) return first;
  std::vector<at::Tensor> rows;
  for (const Part& part : parts) rows.push_back(part.rows.stream.tensor);
  return {at::cat(rows, 0), first.features, first.layout};
}

}  // namespace

Value interleave(Context& context, const std::vector<Value>& inputs, std::initializer_list<BlockStage> stages) {
  std::vector<Part> parts = split(context, inputs);
  for (const BlockStage& stage : stages)
    for (Part& part : parts) {
      const WithSamples of_part(context, part.samples);
      stage(part.rows);
    }
  return join(parts);
}

}  // namespace axonn
