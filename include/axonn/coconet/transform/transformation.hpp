#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"
#include "axonn/core/names.hpp"

// CoCoNet's transformations (section 3): each makes a program with the same results of another one,
// or is refused by a rule.
namespace axonn::coconet {

enum class TransformationKind : uint8_t { split, join, reorder, reorder_back, fuse, overlap, as_slice, dead };

// The statements that split() makes of a value.
enum class SplitPolicy : uint8_t {
  reduce_scatter,  // all_reduce -> reduce_scatter, all_gather
  reduce,          // all_reduce -> reduce, broadcast
  slice            // any replicated value -> slice, all_gather
};

// One transformation as data, so that schedules can be written, stored and replayed.
//
// | written | does |
// | --- | --- |
// | split(x, reduce_scatter, dim=0) | x.part = reduce_scatter(...), x = all_gather(x.part) |
// | split(x, reduce, root=0) | x.root = reduce(...), x = broadcast(x.root) |
// | split(x, slice, dim=0) | x.full = ..., x.part = slice(x.full), x = all_gather(x.part) |
// | join(x) | the inverse: x is the all_gather or broadcast |
// | reorder(x, a, b) | a and b, or sections, read the parts that x gathers; x moves behind them |
// | reorder_back(x, p, a, b) | the inverse: x = all_gather(p) comes first, a and b read it |
// | fuse(name, a, b) | statements, or fused sections, run as one, block by block |
// | overlap(name, a, b) | statements or fused sections run chunk by chunk |
// | as_slice(t) | every rank keeps only its part of the declared tensor t |
// | dead(x) | x, which nobody reads, is not computed |
//
// A name keeps its value: x is the same numbers before and after. New statements have new names:
// x.part (sliced), x.root (on one rank), x.whole (gathered, then stored by the update x).
struct Transformation {
  TransformationKind kind = TransformationKind::dead;
  std::vector<std::string> names;  // the operands as above; the first one of fuse and overlap is new
  SplitPolicy policy = SplitPolicy::reduce_scatter;
  int dim = 0;   // split by reduce_scatter or slice
  int root = 0;  // split by reduce
  int line = 0;  // in its file; 0: none. It does not count when transformations are compared.

  std::string to_string() const;
  friend bool operator==(const Transformation& a, const Transformation& b) {
    return a.kind == b.kind && a.names == b.names && a.policy == b.policy && a.dim == b.dim && a.root == b.root;
  }
};

std::span<const Rule> transformation_rules();

// UserError with the transformation, the rule and the operation that breaks it. `guards`: for
// proofs only.
Program apply(const Program& program, const Transformation& transformation, const Guards& guards = {});

// A program and the transformations that made it from another one.
class Schedule {
 public:
  explicit Schedule(Program program) : program_(std::move(program)) {}

  Schedule& split(std::string value, SplitPolicy policy, int dim_or_root = 0);
  Schedule& join(std::string value);
  Schedule& reorder(std::string gather, std::vector<std::string> statements);
  Schedule& reorder_back(std::string gather, std::string part, std::vector<std::string> statements);
  Schedule& fuse(std::string name, std::vector<std::string> members);
  Schedule& overlap(std::string name, std::vector<std::string> members);
  Schedule& as_slice(std::string tensor);
  Schedule& dead(std::string value);
  Schedule& apply(Transformation transformation);

  const Program& program() const { return program_; }
  const std::vector<Transformation>& log() const { return log_; }

 private:
  Program program_;
  std::vector<Transformation> log_;
};

// One transformation per line; what it prints parses back.
std::string to_text(std::span<const Transformation> log);
// Lines count from `first_line` in errors; `file` names it, and `schedule` the part of it, if any.
std::vector<Transformation> parse_transformations(std::string_view text, std::string_view file, int first_line = 1,
                                                  std::string_view schedule = "");

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::TransformationKind> {
  using Kind = coconet::TransformationKind;
  static constexpr Named<Kind> all[] = {{"split", Kind::split},       {"join", Kind::join},
                                        {"reorder", Kind::reorder},   {"reorder_back", Kind::reorder_back},
                                        {"fuse", Kind::fuse},         {"overlap", Kind::overlap},
                                        {"as_slice", Kind::as_slice}, {"dead", Kind::dead}};
};

template <>
struct Names<coconet::SplitPolicy> {
  static constexpr Named<coconet::SplitPolicy> all[] = {{"reduce_scatter", coconet::SplitPolicy::reduce_scatter},
                                                        {"reduce", coconet::SplitPolicy::reduce},
                                                        {"slice", coconet::SplitPolicy::slice}};
};

}  // namespace axonn
