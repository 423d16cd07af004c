#include "axonn/layers/interleave.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ops/cat.h>

#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

struct RowChunk {
  BlockRows rows;
  std::optional<Context::Samples> samples;  // for dropout in these rows
};

std::vector<RowChunk> split(const Context& context, const std::vector<Value>& inputs) {
  const int64_t rows = inputs.front().tensor.size(0), chunks = std::min(context.options().split_forward, rows);
  if (chunks <= 1) return {{{.inputs = inputs, .stream = {}, .coming = {}}, context.samples()}};
  std::vector<RowChunk> result;
  for (const Value& input : inputs) {
    int64_t first = 0, place = 0;
    for (const at::Tensor& some : input.tensor.chunk(chunks, 0)) {
      if (static_cast<int64_t>(result.size()) == place) {
        RowChunk& chunk = result.emplace_back();
        chunk.samples = context.samples();
        if (chunk.samples) chunk.samples->first += first;
      }
      result[static_cast<size_t>(place)].rows.inputs.push_back({some, input.features, input.layout});
      first += some.size(0);
      ++place;
    }
  }
  return result;
}

Value join(const std::vector<RowChunk>& chunks) {
  const Value& first = chunks.front().rows.stream;
  if (chunks.size() == 1) return first;
  std::vector<at::Tensor> rows;
  for (const RowChunk& chunk : chunks) rows.push_back(chunk.rows.stream.tensor);
  return {at::cat(rows, 0), first.features, first.layout};
}

}  // namespace

Value interleave(Context& context, const std::vector<Value>& inputs, std::initializer_list<BlockStage> stages) {
  std::vector<RowChunk> chunks = split(context, inputs);
  for (const BlockStage& stage : stages)
    for (RowChunk& chunk : chunks) {
      const WithSamples of_chunk(context, chunk.samples);
      stage(chunk.rows);
    }
  return join(chunks);
}

}  // namespace axonn
