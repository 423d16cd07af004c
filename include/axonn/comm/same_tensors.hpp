#pragma once

#include <vector>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/scattered_tensors.hpp"

namespace axonn {

// UserError on all ranks unless every rank has the same tensors in the same order: number, names,
// sizes and types. It names the first difference. `where` is that of the error. Collective.
void check_same_tensors(Communicator& ranks, const std::vector<NamedTensor>& tensors, const char* where);

}  // namespace axonn
