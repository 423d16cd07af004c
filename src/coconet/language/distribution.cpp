#include "axonn/coconet/language/distribution.hpp"

namespace axonn::coconet {

std::string Distribution::to_string() const {
  std::string text(axonn::to_string(placement));
  if (is(Placement::sliced)) text += "(" + std::to_string(dim) + ")";
  if (is(Placement::rooted)) text += "(" + std::to_string(root) + ")";
  return text;
}

std::string TensorType::to_string() const {
  std::string text(axonn::to_string(element));
  text += " " + coconet::to_string(shape) + " " + distribution.to_string();
  if (group > 0) text += " on " + std::to_string(group);
  return text;
}

}  // namespace axonn::coconet
