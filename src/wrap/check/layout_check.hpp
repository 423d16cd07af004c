#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "axonn/layers/context.hpp"

// ShardOptions::check_layouts. The output of a typed member that stays split is gathered beside it,
// as its shadow. From then on, each operation of LibTorch that takes such a tensor in this thread
// runs on the shadows too, and all ranks of the axis compare what they got: their parts of the
// whole result, then this is its shadow, or all of it, then it is split no longer. Anything else is
// a UserError on all of them. Outside backward only, as it runs with what forward has checked.
namespace axonn {

// How a member's output stays split: `whole` is all of it.
struct KeptOutput {
  std::string member;
  Axis axis;
  int64_t parts = 1;
  int64_t features = 0;  // in each of its equal parts, on all ranks
  int64_t heads = 0;     // likewise; 0: none
  at::Tensor whole;
};
// `x` is followed from now on. Nothing in backward.
void follow(Context& context, const at::Tensor& x, const KeptOutput& output);
void stop_following(const at::Tensor& x);
void stop_following();  // all of this thread, until follow()
bool recomputes();      // within backward

// UserError on all ranks of the axis that names the taker, if `x` is followed but `taker` needs a
// whole tensor; if it does not lie in `dim` over `axis` as it was split.
void check_whole(const at::Tensor& x, const std::string& taker);
void check_split(const at::Tensor& x, const std::string& taker, Axis axis, int64_t dim);

// While it lives, operations of this thread are not axonn's to check.
class Unfollowed {
 public:
  Unfollowed();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace axonn
