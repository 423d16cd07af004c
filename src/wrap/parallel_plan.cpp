#include "wrap/parallel_plan.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <c10/util/Type.h>

#include "axonn/core/error.hpp"
#include "wrap/layer_child.hpp"
#include "wrap/layer_choice.hpp"
#include "wrap/member_links.hpp"

namespace axonn {
namespace {

namespace nn = torch::nn;
constexpr const char* kWhere = "wrap.parallelize";

std::string joined(const std::string& parent, const std::string& key) {
  return parent.empty() ? key : parent + "." + key;
}

class Planner {
 public:
  Planner(nn::Module& module, Context& context, const SplitPlan& plan)
      : context_(context), links_(member_links(module, plan)), choice_(context, links_.whole) {
    survey(module, "");
  }

  void visit(nn::Module& module, const std::string& name) {
    if (!seen_.insert(&module).second) return;
    AXONN_CHECK(dynamic_cast<LayerChild*>(&module) == nullptr, kWhere, "'", name,
                "' was parallelized before; call parallelize() once per module");
    auto* sequential = dynamic_cast<nn::SequentialImpl*>(&module);
    if (sequential != nullptr) walk(*sequential, name);
    auto* member = dynamic_cast<MemberBase*>(&module);
    if (member != nullptr && !in_sequentials_.contains(&module))
      plan_.members.emplace_back(member, member_place(*member));
    for (const auto& child : module.named_children())
      if (!in_sequentials_.contains(child.value().get()) || !choice_.layers().contains(child.value().get()))
        visit(*child.value(), joined(name, child.key()));
    const bool draws = context_.shape().x * context_.shape().y > 1 && draws_random_numbers(module);
    AXONN_CHECK(!draws || choice_.is_numbered(module), kWhere, "'", name, "' (", c10::demangle(typeid(module).name()),
                ") draws random numbers, which would differ between ranks along X and Y; make it a torch::nn::Dropout "
                "that is a child of a Sequential, or an axonn::nn::Dropout, set its probability to 0, or choose a grid "
                "with X = Y = 1");
  }

  ParallelPlan result() {
    AXONN_CHECK(!choice_.layers().empty(), kWhere,
                "no Sequential of the module has a Linear, Conv2d, LayerNorm, GroupNorm or Embedding to divide over X "
                "and Y, and none is a member of a type of axonn::nn; shard() wraps any module over Z and data");
    plan_.layers = choice_.layers();
    return std::move(plan_);
  }

 private:
  const MemberBase::Links& links(const MemberBase& member) const { return links_.links.at(&member); }

  // Without modules(), which refuses a module that no shared_ptr has.
  void survey(const nn::Module& module, const std::string& name) {
    if (const auto* member = dynamic_cast<const MemberBase*>(&module)) {
      member_names_.try_emplace(member, name);
      taken_.insert(links(*member).from.begin(), links(*member).from.end());
    }
    choice_.know(module);
    for (const auto& child : module.named_children()) {
      if (dynamic_cast<const nn::SequentialImpl*>(&module) != nullptr) in_sequentials_.insert(child.value().get());
      survey(*child.value(), joined(name, child.key()));
    }
  }

  void walk(nn::SequentialImpl& sequential, const std::string& name) {
    Stream stream;
    std::string last;
    for (size_t i = 0; i < sequential.size(); ++i) {
      nn::Module& module = *sequential.ptr(i);
      const std::string key = sequential.named_children()[i].key();
      ModulePlace place{joined(name, key), {}, stream, stream, stream, {}};
      choice_.choose(module, place);
      check_features(place, last);
      auto* member = dynamic_cast<MemberBase*>(&module);
      AXONN_CHECK(member == nullptr || (links(*member).from.empty() && !links(*member).kept), kWhere, "'", place.name,
                  "' is a child of a Sequential, which keeps its activations split by itself; leave it out of "
                  "keep_split()");
      const bool ends = i + 1 == sequential.size();
      place.after = ends ? Stream{} : place.output;
      stream = place.output;
      last = place.name;
      // A BatchNorm stays, and learns on which channels it works.
      if (dynamic_cast<BatchNormBase*>(&module) != nullptr)
        plan_.members.emplace_back(member, between(place.name, place.input));
      if (place.layer || place.converts()) plan_.children.push_back({&sequential, i, key, std::move(place)});
    }
  }

  static ModulePlace between(const std::string& name, const Stream& stream) {
    return {name, {}, stream, stream, stream, stream};
  }

  // A typed member, after those whose output it takes.
  const ModulePlace& member_place(const MemberBase& member) {
    const auto known = placed_.find(&member);
    if (known != placed_.end()) return known->second;
    const auto& module = dynamic_cast<const nn::Module&>(member);
    const std::string& name = member_names_.at(&member);
    AXONN_CHECK(placing_.insert(&member).second, kWhere, "'", name,
                "' takes, by calls of keep_split(), what is made of its own output; leave one of the pairs out");
    ModulePlace place{.name = name, .layer = {}, .before = {}, .input = {}, .output = {}, .after = {}};
    std::string last;
    for (const MemberBase* each : links(member).from) {
      const Stream stream = left_by(*each, name);
      AXONN_CHECK(last.empty() || (place.before.same_place(stream) && place.before.features == stream.features), kWhere,
                  "'", name, "' takes the split outputs of '", last, "' and '", member_names_.at(each),
                  "', which lie elsewhere or differ in features; leave one of the pairs out of keep_split()");
      place.before = stream;
      last = member_names_.at(each);
    }
    fill_in(member, module, place, last);
    return placed_.emplace(&member, std::move(place)).first->second;
  }

  // The stream in which `member` leaves its output for `taker`.
  Stream left_by(const MemberBase& member, const std::string& taker) {
    AXONN_CHECK(member_names_.contains(&member), kWhere, "'", taker,
                "' takes the split output of a member that the module has not registered; call keep_split() after "
                "register_module()");
    const auto& module = dynamic_cast<const nn::Module&>(member);
    AXONN_CHECK(!in_sequentials_.contains(&module), kWhere, "'", member_names_.at(&member),
                "' is a child of a Sequential, whose output is gathered; leave it out of keep_split()");
    const Stream stream = member_place(member).after;
    if (stream.replicated()) return {};
    const int64_t parts = links(member).kept->parts;
    return {Layout::over(*stream.layout.axis), stream.features / parts, stream.dim};
  }

  void fill_in(const MemberBase& member, const nn::Module& module, ModulePlace& place, const std::string& last) {
    const auto& kept = links(member).kept;
    const KeepSplit options = kept.value_or(KeepSplit());
    const std::string& name = place.name;
    place.input = place.output = place.before;
    place.kept = kept;
    place.takes_split = !links(member).from.empty();
    AXONN_CHECK(!kept || taken_.contains(&member), kWhere, "'", name,
                "' keeps its output split for a member that the module has not registered; call keep_split() after "
                "register_module()");
    AXONN_CHECK(options.parts == 1 || is_linear(module), kWhere, "'", name,
                "' is no Linear, and only the output of one has .parts; leave them out");
    AXONN_CHECK(last.empty() || !is_embedding(module), kWhere, "'", name,
                "' takes numbers of words, which are not split; leave its pair with '", last, "' out of keep_split()");
    // A norm of a replicated tensor need not exchange anything.
    if (is_norm(module) && place.before.replicated())
      place.input = place.output = {};
    else
      choice_.choose(module, place, options.parts);
    const Stream &from = place.before, &to = place.input;
    AXONN_CHECK(from.replicated() || to.replicated() || from.dim == to.dim, kWhere, "'", name, "' takes ",
                to.dim == 1 ? "channels" : "features in the last dim", ", and '", last, "' gives ",
                from.dim == 1 ? "channels" : "features in the last dim", "; leave the pair out of keep_split()");
    check_features(place, last);
    if (kept) place.after = kept_output(place, options);
  }

  // Split if whole heads lie on every rank.
  Stream kept_output(const ModulePlace& place, const KeepSplit& options) const {
    const Stream& output = place.output;
    if (output.replicated()) return {};
    const int64_t features = output.features / options.parts;
    AXONN_CHECK(options.heads == 0 || features % options.heads == 0, kWhere, "'", place.name, "' has ", features,
                " output features", options.parts > 1 ? " in each part" : "", ", which are not ", options.heads,
                " heads of one size; give keep_split() the number of heads");
    const bool whole_heads = options.heads == 0 || options.heads % context_.shape()[*output.layout.axis] == 0;
    return whole_heads ? output : Stream{};
  }

  static void check_features(const ModulePlace& place, const std::string& last) {
    const Stream &from = place.before, &to = place.input;
    AXONN_CHECK(from.replicated() || to.replicated() || from.dim != to.dim || from.features == 0 || to.features == 0 ||
                    from.features == to.features,
                kWhere, "'", place.name, "' takes ", to.features, " features, and '", last, "' gives ", from.features);
  }

  Context& context_;
  MemberLinks links_;
  LayerChoice choice_;
  std::set<const nn::Module*> seen_, in_sequentials_;
  std::map<const MemberBase*, std::string> member_names_;
  std::map<const MemberBase*, ModulePlace> placed_;
  std::set<const MemberBase*> placing_, taken_;
  ParallelPlan plan_;
};

void collect_batch_norms(nn::Module& module, const std::string& name, ParallelPlan& plan) {
  if (auto* norm = dynamic_cast<BatchNormBase*>(&module))
    plan.members.emplace_back(norm, ModulePlace{name, {}, {}, {}, {}, {}});
  for (const auto& child : module.named_children())
    collect_batch_norms(*child.value(), joined(name, child.key()), plan);
}

}  // namespace

ParallelPlan plan_layers(torch::nn::Module& module, Context& context, const SplitPlan& plan) {
  Planner planner(module, context, plan);
  planner.visit(module, "");
  return planner.result();
}

ParallelPlan plan_batch_norms(torch::nn::Module& module) {
  ParallelPlan plan;
  collect_batch_norms(module, "", plan);
  return plan;
}

}  // namespace axonn
