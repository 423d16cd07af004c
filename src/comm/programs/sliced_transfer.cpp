#include "axonn/comm/programs/sliced_transfer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "comm/collectives/block_layout.hpp"
#include "comm/collectives/call_checks.hpp"
#include "comm/collectives/ring_segments.hpp"

namespace axonn {

SlicedTransfer::SlicedTransfer(std::unique_ptr<Communicator> inside, std::unique_ptr<Communicator> across)
    : inside_(std::move(inside)), across_(std::move(across)) {
  AXONN_ASSERT(across_->size() == 2, "a transfer is between two partners, got ", across_->size());
}

std::vector<SlicedTransfer::Part> SlicedTransfer::cut(const at::Tensor& buffer) const {
  check_tensor(buffer, c10::kCPU, "comm.sliced_transfer");
  const at::Tensor flat = buffer.view({-1});
  const int64_t most = RingSegments::kLargestBytes / flat.element_size() * inside_->size();  // a slice is a message
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < flat.numel(); begin += most) {
    const at::Tensor whole = flat.narrow(0, begin, std::min(most, flat.numel() - begin));
    const BlockLayout owners = BlockLayout::equal(inside_->size(), whole.numel());
    const int rank = inside_->rank();
    parts.push_back({whole, whole.narrow(0, owners.part_begin(rank), owners.count(rank)), begin});
  }
  return parts;
}

// Queues keep their order, so the last request of each function is done after all others.
Request SlicedTransfer::reduce_and_send(const at::Tensor& contributions, const Epilogue& epilogue,
                                        std::string_view tag) {
  Request last;
  for (const Part& part : cut(contributions)) {
    auto* const results = static_cast<std::byte*>(part.whole.data_ptr());
    const auto bytes = static_cast<int64_t>(part.whole.element_size());
    const Epilogue at_owner = [epilogue, results, bytes, first = part.begin](int64_t place, int64_t count,
                                                                             const void* sum, void*) {
      epilogue(first + place, count, sum, results + place * bytes);
    };
    const Request reduced =
        inside_->fused({part.whole, {}, epilogue ? at_owner : Epilogue()}, {.priority = Priority::normal, .tag = tag});
    last =
        across_->send(part.slice, partner(), {.priority = Priority::high, .after = std::span(&reduced, 1), .tag = tag});
  }
  return last;
}

Request SlicedTransfer::send(const at::Tensor& values, std::string_view tag) {
  Request last;
  for (const Part& part : cut(values))
    last = across_->send(part.slice, partner(), {.priority = Priority::high, .tag = tag});
  return last;
}

Request SlicedTransfer::receive(const at::Tensor& values, std::string_view tag) {
  Request last;
  for (const Part& part : cut(values)) {
    const Request here = across_->receive(part.slice, partner(), {.priority = Priority::high, .tag = tag});
    last = inside_->fused({{}, part.whole}, {.priority = Priority::normal, .after = std::span(&here, 1), .tag = tag});
  }
  return last;
}

}  // namespace axonn
