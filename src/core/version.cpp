#include "axonn/core/version.hpp"

namespace axonn {

std::string_view version() noexcept { return AXONN_VERSION; }

#ifdef __clang__
std::string_view compiler() noexcept { return __VERSION__; }
#else
std::string_view compiler() noexcept { return "GCC " __VERSION__; }
#endif

}  // namespace axonn
