#pragma once

#include <string>

#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/network_model.hpp"

namespace axonn {

// UserError when a size is outside its limits. `name` is used in errors and reports.
NetworkModel network_model(std::string name, const GptShape& shape);

}  // namespace axonn
