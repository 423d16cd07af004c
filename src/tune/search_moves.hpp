#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axonn/coconet/transform/transformation.hpp"

// The moves of a search over schedules, and which of them a program has.
namespace axonn::tune {

// A section, or a statement outside of sections: what runs as one.
struct Unit {
  std::string name;
  bool computes = true;  // neither collective nor layer
};

std::vector<Unit> units_of(const coconet::Program& program);

// A number, or one per row, that is computed of others: too little for a schedule of its own.
bool is_small(const coconet::Program& program, const coconet::Statement& statement);
// Whether a collective of `consumer` reads a value that `producer` computes.
bool hands_over(const coconet::Program& program, const Unit& producer, const Unit& consumer);
// Whether a tensor is computed and then summed, so that an overlap is possible.
bool sums_computed(const coconet::Program& program);
bool has_plan(const coconet::Program& program);

// A name that the program does not have.
std::string new_section(const coconet::Program& program, const std::string& kind);
// None if a rule forbids it.
std::optional<coconet::Schedule> with(const coconet::Schedule& schedule, const coconet::Transformation& transformation);
// Two units as one section, with what stores their values if that is allowed.
std::optional<coconet::Schedule> with_fused(const coconet::Schedule& schedule, const Unit& a, const Unit& b);
// All computations fused, as far as rules and plans allow.
coconet::Schedule with_fused_computations(coconet::Schedule schedule);
// Without what nobody reads, and with slices of tensors if that is asked for.
coconet::Schedule simplified(coconet::Schedule schedule, bool slices_tensors);

}  // namespace axonn::tune
