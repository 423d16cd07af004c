#pragma once

#include <string>
#include <string_view>

#include "axonn/config/codec.hpp"
#include "axonn/core/switches.hpp"
#include "axonn/grid/grid.hpp"

// Codecs of types that the trainer's and the planner's options share.
namespace axonn {

// Calls `parse` and puts `what`, the name of the option, before the sentence of its UserError.
auto parsed_for(std::string_view what, const auto& parse) {
  try {
    return parse();
  } catch (const UserError& error) {
    throw UserError("config.options", detail::concatenate(what, ": ", error.sentence()));
  }
}

template <>
struct Codec<GridShape> {
  static GridShape parse(std::string_view text, std::string_view what) {
    return parsed_for(what, [&] { return parse_grid_shape(text); });
  }
  static std::string print(const GridShape& shape) { return shape.to_string(); }
  static std::string type() { return "TEXT"; }
};

template <>
struct Codec<AxisOrder> {
  static AxisOrder parse(std::string_view text, std::string_view what) {
    return parsed_for(what, [&] { return parse_axis_order(text); });
  }
  static std::string print(const AxisOrder& order) { return to_string(order); }
  static std::string type() { return "TEXT"; }
};

template <HasSwitches Set>
struct Codec<Set> {
  static Set parse(std::string_view text, std::string_view what) {
    return parsed_for(what, [&] { return parse_switches<Set>(text); });
  }
  static std::string print(const Set& set) { return to_string(set); }
  static std::string type() { return "TEXT"; }
};

}  // namespace axonn
