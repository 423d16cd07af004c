#pragma once

#include <cstdint>

#include "axonn/coconet/language/guards.hpp"

namespace axonn::coconet {

// The place of a rule among typing_rules().
enum class TypingRule : uint8_t {
  element_types,
  booleans,
  shapes,
  distributions,
  groups,
  probability,
  slice,
  load,
  update,
  reduced_dims,
  norm,
  matmul_shapes,
  matmul_distributions,
  conv2d_shapes,
  conv2d_distributions,
  all_reduce,
  reduce_scatter,
  reduce,
  all_gather,
  broadcast,
  send,
};

const Rule& rule_of(TypingRule rule);

}  // namespace axonn::coconet
