#pragma once

#include <string_view>

namespace axonn {

std::string_view version() noexcept;   // "0.1.0"
std::string_view compiler() noexcept;  // that made this library: "GCC 12.2.0"

}  // namespace axonn
