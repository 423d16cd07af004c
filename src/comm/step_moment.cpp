#include "axonn/comm/step_moment.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

std::string StepMoment::text(uint64_t packed) {
  if (packed == 0) return {};
  const uint64_t step = packed >> kBits, micro_batches = packed & ((uint64_t{1} << kBits) - 1);
  if (micro_batches == 0) return detail::concatenate("after step ", step);
  return detail::concatenate("in step ", step, " of ", micro_batches, " micro-batch", micro_batches == 1 ? "" : "es");
}

}  // namespace axonn
