#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "axonn/overlap/step/phase.hpp"

namespace axonn {

// The order in which a network's weights are gathered: what came next the last time when the last two were these, in this phase. So a loop,
// a branch or a weight with several consumers needs no marks from the network; a changed order is learned from its first run.
class GatherOrder {
 public:
  struct Place {
    Phase phase = Phase::train;
    int weight = -1;
  };

  // `next` is gathered now. Whether that was foretold.
  bool note(Place next);
  // What will come after the last noted place, nearest first; shorter than `count` where nothing is known.
  std::vector<Place>& foretell(int count);

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
