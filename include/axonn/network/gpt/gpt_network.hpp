#pragma once

#include <string>

#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/network_model.hpp"

namespace axonn {

// UserError for sizes that are none, or beyond any network. `name` stands in errors and reports.
NetworkModel network_model(std::string name, const GptShape& shape);

}  // namespace axonn
