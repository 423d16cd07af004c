#pragma once

#include <functional>
#include <vector>

#include "axonn/overlap/step/traffic.hpp"

namespace axonn::bench {

// Seconds of one step of this rank if every queue were infinite: the longest path through what the host did (computing between its calls),
// each collective that it launched taking `alone(record)` seconds from its launch on, and the waits. A sum over data starts after the
// reduce-scatter launched last before it, which gave it its last gradients.
double ideal_seconds(const std::vector<FlightRecord>& records, FlightRecord::Time begin, FlightRecord::Time end,
                     const std::function<double(const FlightRecord&)>& alone);

}  // namespace axonn::bench
