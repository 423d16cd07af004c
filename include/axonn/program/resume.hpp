#pragma once

#include <optional>
#include <span>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"

namespace axonn {

// A run that goes on. What neither a flag nor a file sets is as it was in the checkpoint; UserError when one of the `kept` keys (network,
// data, order of samples) was set to another value. `out` becomes the run's own directory unless it was set.
void take_over(OptionTable& table, const CheckpointReader& reader, std::span<const std::string> kept, std::string& out);

// UserError unless the data of the run that goes on are those it began with.
void check_same_data(const CheckpointReader& reader, uint64_t fingerprint);

// UserError when `out` holds a run already, unless it is the one that goes on.
void check_out(const std::string& out, const std::optional<CheckpointReader>& resumed);

}  // namespace axonn
