#pragma once

#include <nlohmann/json_fwd.hpp>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// A tensor in manifest.json. UserError if no tensor can be so, which does not name the file.
nlohmann::ordered_json tensor_to_json(const CheckpointReader::Description& tensor);
CheckpointReader::Description tensor_from_json(const nlohmann::ordered_json& item);

}  // namespace axonn
