#pragma once

#include <string>
#include <vector>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "coconet/stages/chain_writer.hpp"
#include "coconet/stages/stage_run.hpp"

namespace axonn::coconet {

// A chain that is bound to an instruction set.
struct BoundChain {
  std::vector<WrittenStage> written;
  std::vector<Stage> stages;
  int elements_per_round = 0;
};

struct StageChain::Compiled {
  PointwiseKernel kernel;
  InstructionSet set;
  StageTable table;
  std::vector<double> constants;
  BoundChain once, per_element;
};

// "r0 = fp32 multiply(g, 0.1), r1 = old r0"
std::string describe_stage(const StageChain::Compiled& chain, const WrittenStage& stage);

}  // namespace axonn::coconet
