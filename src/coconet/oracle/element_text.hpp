#pragma once

#include <string>

#include "axonn/coconet/language/size.hpp"

namespace axonn::coconet {

// "0.1" with all digits that tell a number from others, or "missing".
std::string element_text(double element);
// The index of an element in every dim: "[3, 1]"; "" of a scalar.
std::string index_text(int64_t element, const Extents& extents);

}  // namespace axonn::coconet
