#pragma once

#include <cstdint>
#include <string>

#include "axonn/coconet/language/element_type.hpp"
#include "axonn/coconet/language/size.hpp"

namespace axonn::coconet {

enum class Placement : uint8_t { local, replicated, sliced, rooted };

// How a tensor lies on the ranks of its group (CoCoNet, section 2.1: its layouts).
//   local       the whole shape on every rank, with other values on each
//   replicated  the whole shape on every rank, with the same values
//   sliced(d)   every index of dim d lies on one rank, its owner
//   rooted(r)   the whole shape on rank r only: what Reduce leaves and Broadcast takes
struct Distribution {
  Placement placement = Placement::replicated;
  int dim = 0;   // sliced
  int root = 0;  // rooted

  static Distribution local() { return {Placement::local}; }
  static Distribution replicated() { return {Placement::replicated}; }
  static Distribution sliced(int dim) { return {Placement::sliced, dim}; }
  static Distribution rooted(int root) { return {Placement::rooted, 0, root}; }

  bool is(Placement other) const { return placement == other; }
  std::string to_string() const;  // "sliced(0)"
  friend bool operator==(const Distribution&, const Distribution&) = default;
};

// The type of a value, known before the program runs. Its rule derives it from its operands.
struct TensorType {
  ElementType element = ElementType::fp32;
  Shape shape;  // the whole tensor's, also when it is sliced
  Distribution distribution;
  int group = 0;  // the group of ranks that holds it; only send moves it to another one

  // The group of the program's scalars and numbers: every rank has them.
  static constexpr int kEveryGroup = -1;
  bool is_scalar() const { return shape.empty(); }
  std::string to_string() const;  // "fp32 [N] sliced(0)"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::Placement> {
  static constexpr Named<coconet::Placement> all[] = {{"local", coconet::Placement::local},
                                                      {"replicated", coconet::Placement::replicated},
                                                      {"sliced", coconet::Placement::sliced},
                                                      {"rooted", coconet::Placement::rooted}};
};

}  // namespace axonn
