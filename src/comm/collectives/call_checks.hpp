#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "comm/collectives/block_layout.hpp"

// Checks that every backend makes in a call, so that misuse gives the same error on any number of
// ranks.
namespace axonn {

// UserError unless `tensor` is contiguous, on a device of that type, and of a dtype that
// collectives take.
void check_tensor(const at::Tensor& tensor, c10::DeviceType device, const char* where);

// The layout of the parts of `whole`; equal parts when `counts` is empty. `part` is this rank's
// part. UserError when they do not fit.
BlockLayout check_parts(const at::Tensor& whole, const at::Tensor& part, std::span<const int64_t> counts, int size,
                        int index, const char* where);

// The layout of a fused collective. UserError when its tensors do not fit.
BlockLayout check_fused(const FusedCollective& collective, const CollectiveOptions& options, int size);
// The owners of the elements of a buffer that is reduced.
BlockLayout owners_of(int64_t elements, const CollectiveOptions& options, int size);

// UserError unless the production, if there is one, writes what a collective of this layout reads.
void check_production(const CollectiveOptions& options, const BlockLayout& layout, const char* where);
// For collectives and backends that read all of their input at once.
void refuse_production(const CollectiveOptions& options, const char* where);
// UserError unless the segment's size is one that messages may have.
void check_segment(const CollectiveOptions& options, std::string_view collective);

// For backends that have no fused collectives.
[[noreturn]] void refuse_fused(std::string_view backend);

void check_member(int member, int size, const char* where);
void check_peer(int peer, int size, int index, const char* where);

}  // namespace axonn
