#pragma once

#include "comm/collective_checks.hpp"

namespace axonn {

// Checks of fused collectives on scattered tensors, for every transport and also for one rank.
std::span<const CollectiveCheck> scattered_checks();

}  // namespace axonn
