#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "axonn/overlap/step/phase.hpp"

namespace axonn {

// Learns the order in which a network's weights are gathered. From the last two weights and the
// phase it predicts the weight that followed them the last time. So a loop, a branch or a weight
// with several consumers needs no marks from the network. A changed order is learned from its first
// run.
class GatherOrder {
 public:
  struct Place {
    Phase phase = Phase::train;
    int weight = -1;
    bool updated = false;  // the first since the weights changed
  };

  // Records that `next` is gathered now; returns whether it was predicted.
  bool note(Place next);
  // The places expected after the last recorded one, nearest first; fewer than `count` when no more
  // are known.
  std::vector<Place>& predict(int count);

 private:
  struct Context {
    int before = -1;
    Place last;
  };
  static uint64_t key(const Context& context);

  Context now_;
  std::unordered_map<uint64_t, Place> next_;
  std::vector<Place> foretold_;
};

}  // namespace axonn
