#pragma once

#include "axonn/coconet/transform/transformation.hpp"
#include "coconet/proofs/random_program.hpp"

namespace axonn::coconet::proofs {

struct RandomSchedule {
  Program program;
  std::vector<Transformation> log;
};

// Applies transformations with random operands; those that a rule refuses are left out. Those of
// one after the other make sense together often enough to reach every fused collective.
RandomSchedule random_schedule(const RandomProgram& random, Dice& dice, const Guards& guards, Aim aim = Aim::anything);

}  // namespace axonn::coconet::proofs
