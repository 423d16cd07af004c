#include "axonn/train/batch_plan.hpp"

#include "axonn/core/error.hpp"
#include "axonn/grid/context_ring.hpp"

namespace axonn {

int64_t BatchPlan::first_sample(int64_t step, int64_t j) const {
  return step * batch + j * (batch / micro_batches) + row_group * micro_batch;
}

BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at,
                     int64_t context) {
  AXONN_CHECK(batch > 0 && micro_batch > 0, "train.plan_batch", "batch and micro_batch must be positive, got ", batch,
              " and ", micro_batch);
  check_context(shape, context);
  const auto [groups, mine] = row_share(shape, at, context);
  const int64_t a_forward = micro_batch * groups;
  const std::string divided = context == 1 ? "" : detail::concatenate(" / ", context);
  AXONN_CHECK(batch % a_forward == 0, "train.plan_batch", "batch must divide by micro_batch * z",
              context == 1 ? "" : " / context", " * data, got batch = ", batch, " and ", micro_batch, " * ", shape.z,
              divided, " * ", shape.data, " = ", a_forward, " (grid ", shape.to_string(), "); ",
              batch < a_forward ? "least batch: "
                                : detail::concatenate("nearest batches: ", batch / a_forward * a_forward, ", "),
              (batch / a_forward + 1) * a_forward);
  return {.batch = batch, .micro_batch = micro_batch, .micro_batches = batch / a_forward, .row_group = mine};
}

BatchPlan plan_micro_batches(int64_t batch, int64_t micro_batches, const GridShape& shape, const Coordinate& at,
                             int64_t context) {
  AXONN_CHECK(micro_batches >= 1, "train.plan_batch", "micro_batches must be at least 1, got ", micro_batches);
  check_context(shape, context);
  return plan_batch(batch, batch / micro_batches / row_groups(shape, context), shape, at, context);
}

std::string batch_text(const BatchPlan& plan, std::string_view samples, const GridShape& shape, int64_t context) {
  const std::string ranks = context == 1 ? "rank" : detail::concatenate(context, " ranks"),
                    divided = context == 1 ? "" : detail::concatenate(" / ", context);
  return detail::concatenate("batch ", plan.batch, " = ", plan.micro_batches, " micro-batch",
                             plan.micro_batches == 1 ? "" : "es", " x ", plan.micro_batch, " ", samples, " per ", ranks,
                             " x z ", shape.z, divided, " x data ", shape.data);
}

}  // namespace axonn
