#pragma once

#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// UserError for an environment variable with an invalid value. Called before the job starts.
void check_environment();

// Configures the log from AXONN_LOG and AXONN_LOG_ALL_RANKS. Called again when this rank's
// coordinate is known.
void configure_log(const Environment& environment, const std::string& grid);

}  // namespace axonn
