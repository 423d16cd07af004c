#pragma once

#include <string>

#include <axonn/config/option_table.hpp>
#include <axonn/network/networks.hpp>

// Which network, as it was said: a model, sizes, or both (sizes override the model's).
class NetworkFlags {
 public:
  explicit NetworkFlags(axonn::OptionTable& table);  // which outlives it, and gets the flags
  axonn::NetworkShape shape() const;                 // UserError
  axonn::NetworkModel network() const;

 private:
  std::string foreign_flag(const axonn::NetworkShape& shape) const;

  const axonn::OptionTable& table_;
  std::string model_;
  axonn::EveryNetworkShape given_;  // sizes of either network
};
