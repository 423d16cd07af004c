#include "axonn/core/error.hpp"

#include <utility>

namespace axonn {

Error::Error(std::string where, std::string sentence)
    : std::runtime_error("[" + where + "] " + sentence), where_(std::move(where)), sentence_(std::move(sentence)) {}

}  // namespace axonn
