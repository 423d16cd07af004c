#include "wrap/check/followed_call.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"
#include "wrap/check/layout_check.hpp"
#include "wrap/check/operation_facts.hpp"
#include "wrap/check/whole_arguments.hpp"
#include "wrap/tensors_in.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.check_layouts";

// One operation on tensors that are followed.
class FollowedCall {
 public:
  FollowedCall(const c10::OperatorHandle& operation, c10::Stack& stack)
      : operation_(operation), schema_(operation.schema()), stack_(stack) {
    local_.assign(stack.end() - static_cast<ptrdiff_t>(schema_.arguments().size()), stack.end());
    for (const c10::IValue& each : local_) visit_tensors(each, [this](const at::Tensor& x) { add_input(x); });
  }
  // Whether it computes values from what is followed.
  bool follows() const { return split_ != nullptr && !is_of_autograd(schema_) && gives_tensors(schema_); }

  void run() {
    AXONN_CHECK(!draws(operation_, local_), kWhere, name(), " draws random numbers for ", input_,
                ", the same on each rank for other features; use an axonn::nn::Dropout between the members, or ",
                leave_out());
    const Arguments whole = whole_arguments(schema_, local_);
    const std::vector<at::Tensor> results = called(local_, stack_);
    check_gradients(results);
    check_results(results, whole);
  }

 private:
  void add_input(const at::Tensor& x) {
    const Shadow* shadow = shadow_of(x);
    if (shadow == nullptr) {
      if (x.requires_grad()) learns_ = x;
      return;
    }
    parts_ = std::max(parts_, shadow->parts);
    if (split_ == nullptr) {
      split_ = shadow->split;
      input_ = describe(x, *shadow);
    }
    AXONN_CHECK(shadow->split->axis == split_->axis, kWhere, name(), " combines ", input_, " and ",
                describe(x, *shadow), ", which are split over different axes; ", leave_out());
  }

  std::string name() const { return detail::concatenate("'", given_name(schema_), "'"); }
  std::string leave_out() const {
    return detail::concatenate("leave '", split_->member, "' out of keep_split() or .plan");
  }

  // Tensors written and returned, in this order. `stack` has the arguments, and then the results.
  std::vector<at::Tensor> called(const Arguments& arguments, c10::Stack& stack) const {
    operation_.callBoxed(&stack);
    std::vector<at::Tensor> results;
    const auto add = [&](const at::Tensor& x) { results.push_back(x); };
    for (size_t i = 0; i < arguments.size(); ++i)
      if (is_written(schema_, i)) visit_tensors(arguments[i], add);
    for (auto each = stack.end() - static_cast<ptrdiff_t>(schema_.returns().size()); each != stack.end(); ++each)
      visit_tensors(*each, add);
    if (is_uninitialised(schema_))
      for (const at::Tensor& each : results) each.detach().zero_();
    return results;
  }

  void check_gradients(const std::vector<at::Tensor>& results) const {
    const bool differentiable = at::GradMode::is_enabled() && std::ranges::any_of(results, &at::Tensor::requires_grad);
    AXONN_CHECK(!differentiable || !learns_.defined(), kWhere, name(), " combines ", input_,
                " with a tensor that is the same on all ranks and requires a gradient (sizes ", learns_.sizes(),
                "): each rank would give it that of its features only; ", leave_out(),
                ", or make it the output of a member that stays split too");
  }

  // The results of the operation on the whole tensors.
  struct Attempt {
    std::vector<at::Tensor> results = {};
    std::string problem = {};         // LibTorch's, if it cannot be computed
    std::vector<int64_t> parts = {};  // this rank's results are pieces of so many; 0: they are whole
    int64_t most_parts() const { return parts.empty() ? kNone : std::ranges::max(parts); }
  };
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  // All ranks of the axis make the same attempts, as long as none fits as its inputs did: a view
  // that splits rows may fit the numbers, but not what follows. No attempt reads what another has
  // written.
  void check_results(const std::vector<at::Tensor>& results, const Arguments& whole) {
    const Attempt first = attempt(results, whole);
    if (first.most_parts() <= parts_) return accept(results, first);
    Attempt best = first;
    bool computes = first.problem.empty();
    const auto attempt_also = [&](const std::optional<Arguments>& other, bool other_sizes) {
      Attempt next = attempt(results, other, other_sizes);
      computes |= other && next.problem.empty();
      if (better(results, next, best)) best = std::move(next);
    };
    const bool wrote = schema_.is_mutable() && computes;
    attempt_also(wrote ? std::nullopt : with_constants_of_all_ranks(schema_, local_, whole), /*other_sizes=*/false);
    if (!schema_.is_mutable())
      for (const auto& other : with_sizes_of_all_ranks(schema_, whole, *split_)) attempt_also(other, true);
    if (best.most_parts() == kNone) throw UserError(kWhere, computes ? other_values() : not_on_whole(first.problem));
    accept(results, best);
  }

  // Fewer parts, and heads rather than features.
  bool better(const std::vector<at::Tensor>& results, const Attempt& one, const Attempt& other) const {
    const auto splits_heads = [&](const Attempt& each) {
      const auto dim = differing_dim(results[0], each.results[0]);
      return dim && split_->heads > 0 && each.results[0].size(*dim) == each.parts[0] * split_->heads;
    };
    if (one.most_parts() != other.most_parts()) return one.most_parts() < other.most_parts();
    return one.most_parts() < kNone && splits_heads(one) && !splits_heads(other);
  }

  void accept(const std::vector<at::Tensor>& results, const Attempt& whole) const {
    for (size_t i = 0; i < results.size(); ++i) {
      if (whole.parts[i] == 0) {
        take_shadow(results[i]);
        continue;
      }
      const bool of_another = schema_.is_mutable() && shadow_of(results[i]) == nullptr && results[i].is_view();
      AXONN_CHECK(!of_another, kWhere, name(), " writes ", input_,
                  " into a part of another tensor, which check_layouts cannot follow; put it together by torch::cat() "
                  "or torch::stack(), or ",
                  leave_out());
      give_shadow(results[i], whole.results[i], whole.parts[i], split_);
    }
  }

  std::string other_values() const {
    return detail::concatenate(name(), " of ", input_,
                               " gives other numbers than of the whole tensor: it takes, orders or sums split "
                               "features; ",
                               leave_out(), ", or give it the .heads or .parts that forward takes apart");
  }
  std::string not_on_whole(const std::string& problem) const {
    return detail::concatenate(name(), " of ", input_,
                               " fits the features of this rank only (on the whole tensor: ", problem, "); ",
                               leave_out());
  }

  Attempt attempt(const std::vector<at::Tensor>& results, const std::optional<Arguments>& whole,
                  bool other_sizes = false) const {
    const at::NoGradGuard no_grad;
    Attempt made;
    if (whole) {
      c10::Stack stack(whole->begin(), whole->end());
      try {
        made.results = called(*whole, stack);
      } catch (const c10::Error& error) {
        made.problem = first_line(error.what_without_backtrace());
      } catch (const std::exception& error) {
        made.problem = first_line(error.what());
      }
    }
    made.parts = agreed_parts(results, made.results, other_sizes);
    return made;
  }

  static std::string first_line(std::string text) { return text.substr(0, text.find('\n')); }

  // Of each result; nothing if one of them is neither split nor whole on some rank. Other sizes
  // must count all features or heads: a smaller number is the program's own, and means others.
  std::vector<int64_t> agreed_parts(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& of_whole,
                                    bool other_sizes) const {
    const auto count = of_whole.size() == results.size() ? static_cast<int64_t>(results.size()) : 0;
    const auto counts = split_->least({count, -count});
    if (count == 0 || counts[0] != -counts[1]) return {};
    std::vector<int64_t> fits;
    for (size_t i = 0; i < results.size(); ++i) {
      int64_t parts = parts_of_piece(results[i], of_whole[i], *split_);
      const auto dim = differing_dim(results[i], of_whole[i]);
      if (other_sizes && parts > 0 && dim && !split_->counts_all(of_whole[i].size(*dim) / parts)) parts = 0;
      fits.push_back(same_values(results[i], of_whole[i]) ? 1 : 0);
      fits.push_back(parts > 0 ? -parts : -kNone);
    }
    fits = split_->least(fits);
    std::vector<int64_t> agreed;
    for (size_t i = 0; i < results.size(); ++i) {
      if (fits[2 * i] == 0 && fits[2 * i + 1] == -kNone) return {};
      agreed.push_back(fits[2 * i] != 0 ? 0 : -fits[2 * i + 1]);
    }
    return agreed;
  }

  const c10::OperatorHandle& operation_;
  const c10::FunctionSchema& schema_;
  c10::Stack& stack_;
  Arguments local_;
  at::Tensor learns_;                         // an input that is not followed and requires a gradient
  std::shared_ptr<const SplitOutput> split_;  // the first one's that is followed
  std::string input_;                         // describes it
  int64_t parts_ = 1;                         // the most of those that are followed
};

}  // namespace

void followed_call(const c10::OperatorHandle& operation, c10::Stack* stack) {
  const Unfollowed checking;
  if (recomputes()) return operation.callBoxed(stack);
  FollowedCall call(operation, *stack);
  return call.follows() ? call.run() : operation.callBoxed(stack);
}

}  // namespace axonn
