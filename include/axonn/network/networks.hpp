#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/network/unet/unet_network.hpp"

namespace axonn {

// Every network. A new one needs an entry here, a specialisation of Sizes and its own
// network_model().
using NetworkShape = std::variant<DecoderShape, UnetShape>;

// One shape of each network.
template <typename... Shape>
std::tuple<Shape...> one_of_each(std::type_identity<std::variant<Shape...>>);
using EveryNetworkShape = decltype(one_of_each(std::type_identity<NetworkShape>()));

// Calls `visit` with std::type_identity<Shape> for each, in that order.
template <typename Visit>
void for_each_network(const Visit& visit) {
  [&]<typename... Shape>(std::type_identity<std::variant<Shape...>>) {
    (visit(std::type_identity<Shape>()), ...);
  }(std::type_identity<NetworkShape>());
}

// "transformer", "UNet"
inline std::vector<std::string_view> network_kinds() {
  std::vector<std::string_view> kinds;
  for_each_network([&]<typename Shape>(std::type_identity<Shape>) { kinds.push_back(Sizes<Shape>::kNetwork); });
  return kinds;
}
inline std::string_view network_kind(const NetworkShape& shape) {
  return std::visit([]<typename Shape>(const Shape&) { return Sizes<Shape>::kNetwork; }, shape);
}

inline NetworkModel network_model(std::string name, const NetworkShape& shape) {
  return std::visit([&](const auto& sizes) { return network_model(std::move(name), sizes); }, shape);
}

}  // namespace axonn
