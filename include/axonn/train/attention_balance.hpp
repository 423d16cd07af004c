#pragma once

#include "axonn/layers/context.hpp"

namespace axonn {

// Measures on all ranks at the same time how long attention takes, and an all-reduce along x and y,
// each on the slowest rank. Takes some tenths of a second; every rank of the grid calls it. Zeros
// at once where nothing asks for it: a GPU, attention_rows on or off, no ranks along x and y.
AttentionBalance measure_attention_balance(Environment& environment, const GridShape& shape,
                                           const ContextOptions& options);

}  // namespace axonn
