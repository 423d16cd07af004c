#pragma once

#include <functional>
#include <vector>

#include "axonn/overlap/step/traffic.hpp"

namespace axonn::bench {

// Seconds of one step of this rank with unlimited queues: the longest path through the host's
// actions (computation between its calls), collectives, each of which takes `alone(record)` seconds
// from its launch, and waits. An all-reduce over data starts after the last reduce-scatter launched
// before it, which produces its last gradients.
double ideal_seconds(const std::vector<RequestRecord>& records, RequestRecord::Time begin, RequestRecord::Time end,
                     const std::function<double(const RequestRecord&)>& alone);

}  // namespace axonn::bench
