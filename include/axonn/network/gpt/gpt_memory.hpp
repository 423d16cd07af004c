#pragma once

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/memory.hpp"

namespace axonn {

// Left out: the process itself (code, libraries), buffers of unfinished messages, and the data.
// UserError when a size is outside its limits.
MemoryPrediction predict_memory(const GptShape& shape, const GridShape& grid, const MemoryOptions& options);

}  // namespace axonn
