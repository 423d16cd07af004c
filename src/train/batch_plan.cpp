#include "axonn/train/batch_plan.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

int64_t BatchPlan::first_sample(int64_t step, int64_t j) const {
  return step * batch + j * (batch / micro_batches) + row_group * micro_batch;
}

BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at) {
  AXONN_CHECK(batch > 0 && micro_batch > 0, "train.plan_batch", "batch and micro_batch must be positive, got ", batch,
              " and ", micro_batch);
  const auto [groups, mine] = row_share(shape, at);
  const int64_t a_forward = micro_batch * groups;
  AXONN_CHECK(batch % a_forward == 0, "train.plan_batch",
              "batch must divide by micro_batch * z * data, got batch = ", batch, " and ", micro_batch, " * ", shape.z,
              " * ", shape.data, " = ", a_forward, " (grid ", shape.to_string(), "); ",
              batch < a_forward ? "least batch: "
                                : detail::concatenate("nearest batches: ", batch / a_forward * a_forward, ", "),
              (batch / a_forward + 1) * a_forward);
  return {.batch = batch, .micro_batch = micro_batch, .micro_batches = batch / a_forward, .row_group = mine};
}

BatchPlan plan_micro_batches(int64_t batch, int64_t micro_batches, const GridShape& shape, const Coordinate& at) {
  AXONN_CHECK(micro_batches >= 1, "train.plan_batch", "micro_batches must be at least 1, got ", micro_batches);
  return plan_batch(batch, batch / micro_batches / row_share(shape, at).groups, shape, at);
}

std::string batch_text(const BatchPlan& plan, std::string_view samples, const GridShape& shape) {
  return detail::concatenate("batch ", plan.batch, " = ", plan.micro_batches, " micro-batch",
                             plan.micro_batches == 1 ? "" : "es", " x ", plan.micro_batch, " ", samples,
                             " per rank x z ", shape.z, " x data ", shape.data);
}

}  // namespace axonn
