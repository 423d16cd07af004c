#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "comm/collectives/block_layout.hpp"

// What every backend checks in a call, so that misuse reads the same on one rank and on a thousand.
namespace axonn {

// Contiguous, of a dtype that collectives take, on a device of that type.
void check_tensor(const at::Tensor& tensor, c10::DeviceType device, const char* where);

// The parts of `whole`, of which `part` is this rank's; equal ones when `counts` is empty.
BlockLayout check_parts(const at::Tensor& whole, const at::Tensor& part, std::span<const int64_t> counts, int size, int index,
                        const char* where);

void check_member(int member, int size, const char* where);
void check_peer(int peer, int size, int index, const char* where);

}  // namespace axonn
