#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "axonn/coconet/stages/pointwise_kernel.hpp"
#include "axonn/core/names.hpp"

namespace axonn::coconet {

// For what a chain's stages are compiled. All give the same bits. avx2 needs FMA and F16C, avx512
// its parts F, BW, DQ and VL.
enum class InstructionSet : uint8_t { plain, avx2, avx512 };

bool runs_here(InstructionSet set);
InstructionSet best_instruction_set();

// Settings of a dropout mask in one call. Element i of the call is element first + i of the whole
// tensor. `stream`: philox_stream("dropout", name).
struct MaskInput {
  double probability = 0;
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;
};

// The numbers from which stages and kernels of CUDA text draw a mask.
struct MaskRun {
  uint64_t seed = 0;
  uint64_t first = 0;
  uint32_t stream = 0;
  uint32_t last_dropped = 0;  // words up to it drop their element
  bool drops = false;
  float kept = 0;
};
MaskRun mask_run(const MaskInput& input);

// The inputs and outputs of one run, each in the order in which the kernel declared them.
struct StageCall {
  int64_t count = 0;               // elements
  std::span<void* const> streams;  // `count` elements each; none that is stored overlaps another one
  std::span<const double> scalars;
  std::span<const double> range_values;
  std::span<const MaskInput> masks;
  std::span<double* const> partials;  // per reduction, num_partials(count) numbers
};

// A kernel as a chain of stages. A stage is a small function that was compiled ahead for an
// instruction set. It has the values of some elements in vector registers as its arguments, and
// ends in a jump to the next stage. Nothing is compiled at run time, and no memory is executable.
class StageChain {
 public:
  // Reductions give one partial result per block of so many elements, counted from the first
  // element of a call. Cuts of a run at multiples of it give the same partial results.
  static constexpr int64_t kReductionBlock = 1024;
  static constexpr int kMostSpilled = 32;

  // UserError if this processor lacks `set`, if more than kMostSpilled values must wait outside
  // registers, or if the kernel has more than kMostNumbers numbers.
  explicit StageChain(const PointwiseKernel& kernel, InstructionSet set = best_instruction_set());

  // From any thread, also on one chain at the same time. Allocates nothing. Pointers need no
  // alignment. UserError for a call that does not fit to the kernel.
  void run(const StageCall& call) const;

  InstructionSet instruction_set() const;
  int num_stages() const;        // per round, the end included
  std::string describe() const;  // a stage per line

  static int64_t num_partials(int64_t count) { return (count + kReductionBlock - 1) / kReductionBlock; }
  // The result of a whole range: its partial results, one after the other in ascending order.
  static double combine(ReduceOp kind, std::span<const double> partials);

  struct Compiled;

 private:
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::InstructionSet> {
  static constexpr Named<coconet::InstructionSet> all[] = {{"plain", coconet::InstructionSet::plain},
                                                           {"avx2", coconet::InstructionSet::avx2},
                                                           {"avx512", coconet::InstructionSet::avx512}};
};

}  // namespace axonn
