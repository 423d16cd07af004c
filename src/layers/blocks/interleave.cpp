#include "axonn/layers/blocks/interleave.hpp"

#include "layers/blocks/row_parts.hpp"

namespace axonn {

Value interleave(Context& context, const std::vector<Value>& inputs, std::initializer_list<BlockStage> stages) {
  RowParts parts(context, inputs);
  std::vector<BlockRows> rows;
  for (size_t part = 0; part < parts.size(); ++part)
    rows.push_back({.inputs = parts.inputs(part), .stream = {}, .coming = {}});
  for (const BlockStage& stage : stages) parts.each([&](size_t part) { stage(rows[part]); });
  std::vector<Value> results;
  for (BlockRows& each : rows) results.push_back(std::move(each.stream));
  return RowParts::joined(results);
}

}  // namespace axonn
