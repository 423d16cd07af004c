#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"

namespace axonn {

// A hash of the elements (XXH3). On a device it copies them to the host.
uint64_t fingerprint(const at::Tensor& tensor);

// A tensor of which all ranks along `axes` hold the same bits.
struct Replica {
  std::string name;
  at::Tensor held;
  AxisSet axes;
};

// Every rank of the grid calls it with the same names and axes. UserError on all ranks that names
// the first tensor that differs, and `cure`: "after step 3 ranks that must hold the same bits
// differ: 'fc.bias' over z+data; ...". `when` begins it. It sends 16 bytes per set of axes. Returns
// a hash of all that this rank holds.
uint64_t check_same_replicas(Context& context, const std::vector<Replica>& replicas, const char* where,
                             const std::string& when, const std::string& cure = "");

}  // namespace axonn
