#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

// A block adds a layer's output to its stream, after dropout() of this probability and name.
struct AddTo {
  Value stream;  // in the layer's output layout, with the sizes of its output; of a Linear, rows may be divided
  double dropout = 0;
  std::string name = {};
};

}  // namespace axonn
