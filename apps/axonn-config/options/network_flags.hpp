#pragma once

#include <string>

#include <axonn/config/option_table.hpp>
#include <axonn/network/networks.hpp>

// The network of the command line: a model, sizes, or both (sizes override the model's).
class NetworkFlags {
 public:
  explicit NetworkFlags(axonn::OptionTable& table);  // adds its flags to `table`, which must outlive it
  axonn::NetworkShape shape() const;                 // throws UserError
  axonn::NetworkModel network() const;
  bool given() const;  // whether the command line has a model or a size

 private:
  void check_sequence(const axonn::NetworkShape& shape) const;

  const axonn::OptionTable& table_;
  std::string model_;
  axonn::EveryNetworkShape given_;  // sizes given by flags
};
