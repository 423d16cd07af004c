#pragma once

#include <string>

namespace dry {

// For profilers: `name` as the linker has it.
void kernel_was_launched(const std::string& name, int stream);

}  // namespace dry
