#pragma once

#include <string>

namespace axonn {

// Of this machine, as gethostname() says; empty if it says nothing.
std::string host_name();

}  // namespace axonn
