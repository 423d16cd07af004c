#pragma once

#include <string>

#include "axonn/network/network_model.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// UserError when a size is outside its limits. `name` is used in errors and reports.
NetworkModel network_model(std::string name, const UnetShape& shape);

}  // namespace axonn
