#include "scale_reading.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "checkpoint/read/read_together.hpp"

namespace axonn::bench {
namespace {

int64_t bytes_of(const std::vector<Range>& ranges) {
  int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.size();
  return bytes;
}

}  // namespace

Reading::Reading(const std::filesystem::path& directory, const Manifest& manifest, const Coordinate& at,
                 std::vector<CheckpointTensor> tensors)
    : shape_(manifest.grid),
      parts_(manifest.parts),
      tensors_(std::move(tensors)),
      plan_(directory, manifest, shape_, at, /*together=*/true) {
  for (const CheckpointTensor& tensor : tensors_) {
    ReadTarget& target = targets_.emplace_back(ReadTarget{.tensor = &tensor, .host = tensor.shard, .placed = {}});
    target.placed = placed_in_shard(tensor, shape_, at);
    for (const PlacedPart& placed : target.placed) target.missing += placed.size;
    plan_.add(targets_.size() - 1, target);
  }
  numbers_ = plan_.shared();
  plan_.finish(numbers_);
}

void Reading::agree(EchoRank& one) const {
  all_ranks_or_none(one.everyone(), [] {});
  greatest([&](AxisSet axes) -> Communicator& { return one.group(axes); }, shape_, numbers_);
  for (int i = 0; i < 2; ++i) all_ranks_or_none(one.everyone(), [] {});
}

void Reading::send(EchoRank& one) const {
  for (const auto& [axes, read] : plan_.together()) {
    Communicator& group = one.group(axes);
    for (size_t i = 0; i < read.size(); ++i)
      for (int64_t left = bytes_of(read[i].sent); left > 0; left -= kReadMessageBytes)
        group.broadcast(at::zeros({std::min(left, kReadMessageBytes)}, at::kByte), reader_of(i, group.size())).wait();
  }
}

std::map<size_t, int64_t> Reading::files(EchoRank& one) const {
  std::map<size_t, int64_t> bytes;
  const auto read = [&](const PartToRead& part) {
    const Manifest::Part& stored = parts_[part.part];
    bytes[stored.file] += stored.header.size() + stored.data.size();
  };
  for (const PartToRead& part : plan_.alone()) read(part);
  for (const auto& [axes, together] : plan_.together()) {
    const Communicator& group = one.group(axes);
    for (size_t i = 0; i < together.size(); ++i)
      if (reader_of(i, group.size()) == group.rank()) read(together[i]);
  }
  return bytes;
}

}  // namespace axonn::bench
