#include "train/run_end.hpp"

#include <ATen/ops/scalar_tensor.h>

#include "axonn/core/standard_streams.hpp"

namespace axonn {

RunEnd::Wishes RunEnd::wishes() const {
  const bool too_long = config_.minutes > 0 && seconds() > config_.minutes * 60;
  return {wants_stop() ? 1.0 : 0.0, too_long ? 1.0 : 0.0};
}

void RunEnd::decide(const Wishes& greatest) {
  stopped_ = greatest[0] != 0;
  out_of_time_ = greatest[1] != 0;
}

bool RunEnd::ask() {
  if (stopped_) return true;
  const at::Tensor asked = at::scalar_tensor(wants_stop() ? 1.0 : 0.0, at::kDouble);
  everyone_.all_reduce(asked, ReduceOp::max).wait();
  return stopped_ = asked.item<double>() != 0;
}

std::string RunEnd::why_early() const {
  return output_failed() ? "the standard output cannot be written"
         : stopped_      ? "a signal"
                         : "the time of --minutes is over";
}

}  // namespace axonn
