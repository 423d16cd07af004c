#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "axonn/layers/context.hpp"
#include "axonn/layers/layout.hpp"

namespace axonn {

// The rows of a block in ContextOptions::forward.split parts, at most one per row; or all in one.
class RowParts {
 public:
  // Rows are in dim 0 of every input. UserError if ranks divide those of one, and there are parts.
  RowParts(Context& context, const std::vector<Value>& inputs, bool divided = true);

  size_t size() const { return inputs_.size(); }
  const std::vector<Value>& inputs(size_t part) const { return inputs_[part]; }
  // work(part) for each, with its samples for dropout.
  void each(const std::function<void(size_t)>& work);
  // The rows of all parts again.
  static Value joined(const std::vector<Value>& parts);

 private:
  Context& context_;
  std::vector<std::vector<Value>> inputs_;                // per part
  std::vector<std::optional<Context::Samples>> samples_;  // per part
};

}  // namespace axonn
