#include "comm/collectives/call_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>

#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "comm/collectives/reduction_kernels.hpp"

namespace axonn {
namespace {

static_assert(ScatteredTensors::kBucket == kEpilogueUnit && BlockOwners::kBlock % kEpilogueUnit == 0);

// One tensor, or two without a common element. Whoever makes tables checks scattered tensors.
bool fit_together(const CollectiveBuffer& one, const CollectiveBuffer& other) {
  if (one.scattered() || other.scattered()) return true;
  const at::Tensor &a = one.tensor(), &b = other.tensor();
  const auto* const begin_a = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* const begin_b = static_cast<const std::byte*>(b.const_data_ptr());
  if (begin_a == begin_b && a.scalar_type() == b.scalar_type()) return true;
  return begin_a + a.nbytes() <= begin_b || begin_b + b.nbytes() <= begin_a;
}

void check_scattered(const CollectiveBuffer& buffer, std::optional<int64_t> arena_offset, const char* where) {
  check_dtype(buffer.scalar_type(), where);
  const auto [begin, end] = buffer.places();
  AXONN_CHECK(0 <= begin && begin <= end && end <= buffer.scattered()->size(), where, "places ", begin, " to ", end,
              " must lie in the ", buffer.scattered()->size(), " places of the scattered tensors");
  AXONN_CHECK(begin == arena_offset, where, "scattered tensors are reduced by their places: arena_offset must be ",
              begin, ", got ", arena_offset ? std::to_string(*arena_offset) : "none");
}

}  // namespace

void check_tensor(const at::Tensor& tensor, c10::DeviceType device, const char* where) {
  AXONN_CHECK(tensor.defined(), where, "got an undefined tensor");
  AXONN_CHECK(tensor.device().type() == device, where, "this communicator takes tensors on ",
              c10::DeviceTypeName(device, true), ", got one on ", tensor.device().str());
  AXONN_CHECK(tensor.is_contiguous(), where, "tensors must be contiguous, got sizes ", tensor.sizes(), " with strides ",
              tensor.strides());
  check_dtype(tensor.scalar_type(), where);
}

BlockLayout check_parts(const at::Tensor& whole, const at::Tensor& part, std::span<const int64_t> counts, int size,
                        int index, const char* where) {
  AXONN_CHECK(whole.scalar_type() == part.scalar_type(), where, "input and output must have one dtype, got ",
              c10::toString(whole.scalar_type()), " and ", c10::toString(part.scalar_type()));
  if (counts.empty()) {
    AXONN_CHECK(whole.numel() == part.numel() * size, where, "without counts the whole must hold ", size,
                " equal parts, got ", whole.numel(), " elements for parts of ", part.numel());
    return BlockLayout::equal(size, whole.numel());
  }
  AXONN_CHECK(static_cast<int>(counts.size()) == size, where, "counts must have one entry per rank, got ",
              counts.size(), " for ", size, " ranks");
  AXONN_CHECK(std::ranges::all_of(counts, [](int64_t count) { return count >= 0; }), where,
              "counts must not be negative");
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  AXONN_CHECK(sum == whole.numel(), where, "counts must add up to the whole's ", whole.numel(), " elements, got ", sum);
  AXONN_CHECK(counts[static_cast<size_t>(index)] == part.numel(), where, "counts[", index,
              "] = ", counts[static_cast<size_t>(index)], ", but this rank's part has ", part.numel(), " elements");
  return BlockLayout::parts(counts);
}

BlockLayout check_fused(const FusedCollective& collective, const CollectiveOptions& options, int size) {
  const char* const where = "comm.fused";
  const CollectiveBuffer &contributions = collective.contributions, &results = collective.results;
  AXONN_CHECK(contributions.defined() || results.defined(), where,
              "needs contributions to reduce, results to gather, or both; got neither");
  for (const CollectiveBuffer* buffer : {&contributions, &results})
    if (buffer->tensor().defined()) check_tensor(buffer->tensor(), c10::kCPU, where);
  AXONN_CHECK(options.arena_offset.value_or(0) >= 0, where, "arena_offset must not be negative, got ",
              *options.arena_offset);
  for (const CollectiveBuffer* buffer : {&contributions, &results})
    if (buffer->scattered()) check_scattered(*buffer, options.arena_offset, where);
  if (contributions.defined() && results.defined()) {
    AXONN_CHECK(contributions.numel() == results.numel(), where,
                "contributions and results must have equally many elements, got ", contributions.numel(), " and ",
                results.numel());
    AXONN_CHECK(collective.epilogue, where,
                "contributions and results need an epilogue between them; without one, call all_reduce");
    AXONN_CHECK(fit_together(contributions, results), where,
                "contributions and results must be one tensor, or not overlap");
    AXONN_CHECK(!contributions.scattered() || !results.scattered() ||
                    contributions.scattered()->same_places(*results.scattered()),
                where, "scattered contributions and results must have their elements at the same places");
  }
  const CollectiveBuffer& either = contributions.defined() ? contributions : results;
  return owners_of(either.numel(), options, size);
}

BlockLayout owners_of(int64_t elements, const CollectiveOptions& options, int size) {
  return options.arena_offset ? BlockLayout::cyclic(size, elements, *options.arena_offset)
                              : BlockLayout::equal(size, elements);
}

void check_production(const CollectiveOptions& options, const BlockLayout& layout, const char* where) {
  if (options.production == nullptr) return;
  AXONN_CHECK(!options.arena_offset, where,
              "a production writes contiguous parts of each owner, but with an arena_offset owners have every ",
              layout.owners(), "th block; give one of them only");
  const ProducedParts& parts = options.production->parts();
  const int64_t written = parts.elements();
  AXONN_CHECK(parts.members() == layout.owners(), where, "the production is for a group of ", parts.members(),
              " ranks, this one has ", layout.owners(), "; make ProducedParts for this communicator's group");
  AXONN_CHECK(layout.fingerprint() == BlockLayout::equal(layout.owners(), written).fingerprint(), where,
              "the production writes equal parts of ", written, " elements, the collective reads ", layout.elements(),
              " elements in other parts; make ProducedParts for this group and buffer, and give no counts");
}

void refuse_production(const CollectiveOptions& options, const char* where) {
  AXONN_CHECK(options.production == nullptr, where,
              "contributions can be written while all_reduce, reduce_scatter or fused runs on CPUs, not here; give no "
              "production");
}

void check_segment(const CollectiveOptions& options, std::string_view collective) {
  const int64_t bytes = options.segment_bytes;
  AXONN_CHECK(bytes == 0 || (kSmallestSegment <= bytes && bytes <= kLargestSegment), "comm.segment_bytes", collective,
              ": a segment has ", kSmallestSegment, " to ", kLargestSegment, " bytes, got ", bytes,
              "; leave it 0 for comm's choice");
}

void refuse_fused(std::string_view backend) {
  throw BackendError("comm.fused",
                     detail::concatenate("backend '", backend,
                                         "' has no fused collectives; reduce, compute and gather in three calls"));
}

void check_member(int member, int size, const char* where) {
  AXONN_CHECK(member >= 0 && member < size, where, "root and peer are indices in the group, 0 .. ", size - 1, ", got ",
              member);
}

void check_peer(int peer, int size, int index, const char* where) {
  check_member(peer, size, where);
  AXONN_CHECK(peer != index, where, "a rank cannot exchange messages with itself, got peer ", peer);
}

}  // namespace axonn
