#pragma once

#include "comm/collective_checks.hpp"

namespace axonn {

// Checks of collectives whose contributions are still being written, for every transport and also
// for one rank.
std::span<const CollectiveCheck> produced_checks();

}  // namespace axonn
