#include "axonn/wrap/decay_groups.hpp"

#include "wrap/wrapped_network.hpp"

namespace axonn {

std::vector<std::vector<int64_t>> whole_sizes(const WrappedModule& parameters) {
  std::vector<std::vector<int64_t>> sizes;
  for (const FoundTensor& each : parameters.network().found().trained) sizes.push_back(each.tensor.sizes().vec());
  return sizes;
}

}  // namespace axonn
