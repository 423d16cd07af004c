#pragma once

#include "comm/collective_checks.hpp"

namespace axonn {

// Checks of SlicedTransfer for every transport: half of the ranks send to the other half, and a
// last odd rank watches.
std::span<const CollectiveCheck> sliced_checks();

}  // namespace axonn
