#pragma once

#include <optional>
#include <span>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"

namespace axonn {

// For a resumed run. Options that neither a flag nor a file sets are restored from the checkpoint.
// Throws UserError if one of the `kept` keys (network, data, order of samples) was set to another
// value. `out` becomes the directory of the resumed run unless it was set.
void resume_options(OptionTable& table, const CheckpointReader& reader, std::span<const std::string> kept,
                    std::string& out);

// UserError unless the resumed run has the same data as before.
void check_same_data(const CheckpointReader& reader, uint64_t fingerprint);

// UserError if `out` already holds a run, except the resumed one.
void check_out(const std::string& out, const std::optional<CheckpointReader>& resumed);

}  // namespace axonn
