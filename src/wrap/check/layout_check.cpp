#include "wrap/check/layout_check.hpp"

#include <memory>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include "axonn/core/error.hpp"
#include "wrap/check/followed_call.hpp"
#include "wrap/check/shadow.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.check_layouts";

// In the whole process, for as long as it runs: without the key in a thread nothing comes here.
void register_once() {
  static torch::Library library(torch::Library::IMPL, "_", kFollowing, __FILE__, __LINE__);
  static const bool registered = [] {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&followed_call>());
    return true;
  }();
  (void)registered;
}

bool constant_along(int64_t dim, const at::Tensor& x) {
  return x.numel() == 0 || at::equal(x.narrow(dim, 0, 1).expand_as(x), x);
}

}  // namespace

void follow(Context& context, const at::Tensor& x, const KeptOutput& output) {
  if (recomputes()) return;
  register_once();
  give_shadow(x, output.whole, output.parts,
              std::make_shared<SplitOutput>(context, output.member, output.axis, output.features, output.heads));
  c10::impl::tls_set_dispatch_key_included(kFollowing, true);
}

void stop_following(const at::Tensor& x) { take_shadow(x); }

void stop_following() { c10::impl::tls_set_dispatch_key_included(kFollowing, false); }

bool recomputes() { return torch::autograd::get_current_graph_task_id() != -1; }

Unfollowed::Unfollowed() : guard_(kFollowing) {}

void check_whole(const at::Tensor& x, const std::string& taker) {
  const Shadow* shadow = shadow_of(x);
  AXONN_CHECK(shadow == nullptr || recomputes(), kWhere, "'", taker, "' needs a whole tensor and gets ",
              describe(x, *shadow), "; put the two into keep_split(), or leave '", shadow->split->member,
              "' out of it");
}

void check_split(const at::Tensor& x, const std::string& taker, Axis axis, int64_t dim) {
  if (recomputes()) return;
  const at::NoGradGuard no_grad;
  const Unfollowed checking;
  const Shadow* shadow = shadow_of(x);
  if (shadow == nullptr) {
    AXONN_CHECK(constant_along(dim, x.detach()), kWhere, "'", taker,
                "' takes a split tensor, by keep_split(), and gets one that is the same on all ranks (sizes ",
                x.sizes(), "); give it what comes from the other member of the pair, or leave '", taker,
                "' out of keep_split()");
    return;
  }
  const SplitOutput& split = *shadow->split;
  AXONN_CHECK(split.axis == axis, kWhere, "'", taker, "' takes a tensor that is split over ", to_string(axis),
              " and gets ", describe(x, *shadow), "; put the two into keep_split(), or leave '", split.member,
              "' out of it");
  const bool lies = is_piece(x, shadow->whole, dim < 0 ? dim + shadow->whole.dim() : dim, /*parts=*/1, split);
  AXONN_CHECK(split.least({lies ? 1 : 0}).front() == 1, kWhere, "'", taker, "' takes ",
              dim == 1 ? "channels" : "features", " as '", split.member, "' splits them, and gets ",
              describe(x, *shadow), " with others on this rank; keep their order, or leave '", split.member,
              "' out of keep_split()");
}

}  // namespace axonn
