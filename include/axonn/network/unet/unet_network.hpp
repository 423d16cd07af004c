#pragma once

#include <string>

#include "axonn/network/network_model.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// UserError for sizes that are none, or beyond any network. `name` stands in errors and reports.
NetworkModel network_model(std::string name, const UnetShape& shape);

}  // namespace axonn
