#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet::proofs {

// The same numbers on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<uint64_t>(count)); }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename Items>
  const auto& pick(const Items& items) {
    return items[static_cast<size_t>(below(static_cast<int>(std::size(items))))];
  }
  uint64_t seed() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// The aim of programs and schedules: anything that is legal, or what an executor runs with a better
// chance, which has slices of one shape, no convolutions, and overlaps of a sum or a send.
enum class Aim : uint8_t { anything, execution };

// A program of all operations, distributions and types; 1 to 8 ranks, 1 to 3 groups, and sizes that
// are mostly small, and sometimes more than a block of 1024 elements or a range of 64 rows.
struct RandomProgram {
  Program program;
  SizeValues sizes;
  int ranks;
};

// `guards` may leave a rule of types out: the program may then break it.
RandomProgram random_program(Dice& dice, const Guards& guards, Aim aim = Aim::anything);

}  // namespace axonn::coconet::proofs
