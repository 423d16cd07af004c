#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace axonn {

// State that the ranks of one run_local() share.
class LocalHub;
std::shared_ptr<LocalHub> make_local_hub(int ranks);

// The ranks are threads of this process; a message is one copy, made by the receiver.
std::unique_ptr<Transport> make_local_transport(std::shared_ptr<LocalHub> hub, int rank);

}  // namespace axonn
