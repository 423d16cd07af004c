#pragma once

#include "comm/collective_checks.hpp"

namespace axonn {

// Checks of fused collectives, for every transport and also for one rank.
std::span<const CollectiveCheck> fused_checks();

}  // namespace axonn
