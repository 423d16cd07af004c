#pragma once

#include "axonn/comm/communicator.hpp"
#include "axonn/config/option_table.hpp"

namespace axonn {

// UserError on every rank when a rank's options are not those of rank 0: another command line, or
// another file on its host. Only --data may differ. Every rank calls it.
void check_same_options(Communicator& everyone, const OptionTable& table);

}  // namespace axonn
