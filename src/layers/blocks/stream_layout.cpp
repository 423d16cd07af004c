#include "axonn/layers/blocks/stream_layout.hpp"

#include <c10/util/accumulate.h>

#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

bool divides_rows(Context& context, Axis axis) {
  const ForwardSchedule& forward = context.options().forward;
  if (forward.norm_rows != NormRows::automatic) return forward.norm_rows == NormRows::on;
  return forward.split == 1 && !context.communicators().any_sends_messages(axis);
}

}  // namespace

Layout stream_layout(Context& context, Axis features, at::IntArrayRef rows) {
  const Layout whole = Layout::over(features);
  const Axis axis = other_tensor_axis(features);
  const int ranks = context.shape()[axis];
  if (ranks == 1 || c10::multiply_integers(rows) < ranks || !divides_rows(context, axis)) return whole;
  return whole.with_rows(rows.vec());
}

}  // namespace axonn
