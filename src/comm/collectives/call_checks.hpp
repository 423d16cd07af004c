#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

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

void check_member(int member, int size, const char* where);
void check_peer(int peer, int size, int index, const char* where);

}  // namespace axonn
