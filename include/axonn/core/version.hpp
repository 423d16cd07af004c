#pragma once

#include <string_view>

namespace axonn {

std::string_view version() noexcept;  // "0.1.0"

}  // namespace axonn
