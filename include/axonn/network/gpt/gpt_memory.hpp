#pragma once

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/memory.hpp"

namespace axonn {

// Left out: the process itself (code, libraries), buffers of messages under way, the data. UserError for sizes that are not positive.
MemoryPrediction predict_memory(const GptShape& shape, const GridShape& grid, const MemoryOptions& options);

}  // namespace axonn
