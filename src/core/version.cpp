#include "axonn/core/version.hpp"

namespace axonn {

std::string_view version() noexcept { return AXONN_VERSION; }

}  // namespace axonn
