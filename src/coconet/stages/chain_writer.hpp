#pragma once

#include <vector>

#include "coconet/stages/chain_nodes.hpp"
#include "coconet/stages/stage_key.hpp"

namespace axonn::coconet {

// A stage before it is bound to an instruction set; operands as in Stage.
struct WrittenStage {
  StageKey key;
  int a = 0;
  int b = 0;
  int c = 0;
  int out = 0;
};

// Stages for the items, in their order, the end included. Registers are given so that the value
// whose next use is farthest goes to the scratch memory. UserError if that is too small.
std::vector<WrittenStage> write_chain(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items,
                                      bool wide);

// The place of a key in kStages, or -1.
int find_stage(const StageKey& key);

}  // namespace axonn::coconet
