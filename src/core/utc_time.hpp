#pragma once

#include <string>

namespace axonn {

std::string utc_now();  // "2026-11-23T15:04:05Z"

}  // namespace axonn
