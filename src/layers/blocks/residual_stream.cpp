#include "axonn/layers/blocks/residual_stream.hpp"

#include <utility>
#include <vector>

#include "layers/blocks/row_parts.hpp"

namespace axonn {

struct ResidualStream::Parts {
  RowParts rows;
  std::vector<PendingValue> sums = {};  // the stream of each part
};

ResidualStream::ResidualStream(Context& context, const Value& stream, ResidualOptions options)
    : parts_(new Parts{.rows = RowParts(context, {stream}, options.in_parts)}), options_(std::move(options)) {
  for (size_t part = 0; part < parts_->rows.size(); ++part)
    parts_->sums.emplace_back(parts_->rows.inputs(part).front(), [] {});
}

ResidualStream::~ResidualStream() = default;

void ResidualStream::add(NormImpl& norm, BranchImpl& branch) {
  std::vector<BranchImpl::Rest> rests(parts_->rows.size());
  parts_->rows.each([&](size_t part) {
    auto [stream, normalised] = norm.branch(parts_->sums[part].wait());
    const AddTo add{.stream = std::move(stream), .dropout = options_.dropout, .name = options_.name + branch.place()};
    rests[part] = branch.begin(normalised, add);
  });
  parts_->rows.each([&](size_t part) { parts_->sums[part] = std::exchange(rests[part], {})(); });
}

Value ResidualStream::wait() {
  std::vector<Value> streams(parts_->rows.size());
  parts_->rows.each([&](size_t part) { streams[part] = parts_->sums[part].wait(); });
  return RowParts::joined(streams);
}

}  // namespace axonn
