#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

// All that the page of a report shows: {"program": ..., "time": ..., "notes": [...], "runs":
// [...]}. The first runs have curves and samples, all others only a row in the table. Each
// directory counts once, and each run has a name of its own. A directory that cannot be read is a
// note, if there are others; else a UserError.
nlohmann::ordered_json report_data(const std::vector<std::string>& directories);
