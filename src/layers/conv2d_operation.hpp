#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "axonn/layers/conv2d.hpp"
#include "kernels/row_tail.hpp"
#include "layers/operation.hpp"

namespace axonn {

// The sizes of an output but for its channels: (batch, height', width').
std::vector<int64_t> conv2d_sizes(const Conv2dOptions& options, const at::Tensor& images);

// A convolution, its sum and its tail, for record(). Its forward leaves the rest of itself in
// `finish`, to be called once.
std::unique_ptr<Operation> conv2d_operation(Context& context, const Conv2dImpl& layer, ShardedParameter weight,
                                            std::optional<ShardedParameter> bias, std::shared_ptr<RowTail> tail,
                                            std::shared_ptr<std::function<void()>> finish);

}  // namespace axonn
