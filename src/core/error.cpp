#include "axonn/core/error.hpp"

#include <utility>

#include "axonn/core/utf8.hpp"

namespace axonn {

Error::Error(std::string where, std::string sentence)
    : std::runtime_error("[" + where + "] " + printable(sentence)),
      where_(std::move(where)),
      sentence_(printable(sentence)) {}

}  // namespace axonn
