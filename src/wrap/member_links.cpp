#include "wrap/member_links.hpp"

#include <string>
#include <utility>
#include <vector>

#include <c10/util/Type.h>
#include <torch/nn/modules/container/sequential.h>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "wrap/find_parameters.hpp"

namespace axonn {
namespace {

namespace nn = torch::nn;
constexpr const char* kWhere = "wrap.plan";

struct Named {
  std::string name, parent;
  const nn::Module* module = nullptr;
  bool in_sequential = false;
};

// Without named_modules(), which refuses a module that no shared_ptr has.
void survey(const nn::Module& module, const std::string& name, std::vector<Named>& all) {
  const bool sequential = dynamic_cast<const nn::SequentialImpl*>(&module) != nullptr;
  for (const auto& child : module.named_children()) {
    const std::string of_child = name.empty() ? child.key() : name + "." + child.key();
    all.push_back({of_child, name, child.value().get(), sequential});
    survey(*child.value(), of_child, all);
  }
}

const MemberBase& checked_member(const Named& named) {
  AXONN_CHECK(!named.in_sequential, kWhere, "'", named.name,
              "' is a child of a Sequential, which keeps its activations split by itself; leave it out of .plan, or "
              "make it Split::whole");
  const auto* member = dynamic_cast<const MemberBase*>(named.module);
  AXONN_CHECK(member != nullptr, kWhere, "'", named.name, "' is a ", c10::demangle(typeid(*named.module).name()),
              ", whose calls cannot be seen; make it a type of axonn::nn, such as axonn::nn::Linear, or leave it out "
              "of .plan");
  return *member;
}

class Plan {
 public:
  explicit Plan(const nn::Module& module) {
    survey(module, "", all_);
    const auto add = [this](const nn::Module* each) {
      if (const auto* member = dynamic_cast<const MemberBase*>(each)) result_.links[member] = member->links();
    };
    add(&module);
    for (const Named& each : all_) add(each.module);
  }

  void follow(const NamedSplit& line) {
    bool used = false;
    for (const Named& each : all_) {
      if (!matches(line.members, each.name)) continue;
      used = true;
      switch (line.split) {
        case Split::whole:
          result_.whole.insert(each.module);
          break;
        case Split::by_output:
          leave(each, line.keep);
          break;
        case Split::by_input:
          take(each);
          break;
      }
    }
    std::vector<std::string> names;
    for (const Named& each : all_) names.push_back(each.name);
    AXONN_CHECK(used, kWhere, "no module is named '", line.members, "', which .plan has; take names of named_modules()",
                did_you_mean(line.members, names));
  }

  MemberLinks result() {
    for (const auto& [parent, open] : open_)
      AXONN_CHECK(open.taken || open.members.empty(), kWhere, "'", open.last,
                  "' keeps its output split, and no member of the same module behind it in .plan takes it; add one "
                  "with Split::by_input");
    return std::move(result_);
  }

 private:
  // Outputs of the members of one module that stay split.
  struct Open {
    std::vector<const MemberBase*> members;
    std::string last;
    bool taken = false;
  };

  MemberBase::Links& free_links(const Named& named) {
    const MemberBase& member = checked_member(named);
    MemberBase::Links& links = result_.links.at(&member);
    AXONN_CHECK(member.links().from.empty() && !member.links().kept, kWhere, "'", named.name,
                "' is in a pair of keep_split() already; leave it out of .plan, or remove the call");
    return links;
  }

  void leave(const Named& named, const KeepSplit& keep) {
    check_keep_split(keep, kWhere);
    MemberBase::Links& links = free_links(named);
    AXONN_CHECK(!links.kept, kWhere, "'", named.name, "' is Split::by_output in two lines of .plan; leave one out");
    links.kept = keep;
    Open& open = open_[named.parent];
    if (std::exchange(open.taken, false)) open.members.clear();
    open.members.push_back(&checked_member(named));
    open.last = named.name;
  }

  void take(const Named& named) {
    MemberBase::Links& links = free_links(named);
    AXONN_CHECK(links.from.empty(), kWhere, "'", named.name,
                "' is Split::by_input in two lines of .plan; leave one out");
    Open& open = open_[named.parent];
    AXONN_CHECK(!open.members.empty(), kWhere, "'", named.name,
                "' takes a split input, and no member of the same module before it in .plan leaves one; add one with "
                "Split::by_output, or write keep_split() in the module");
    links.from = open.members;
    open.taken = true;
  }

  std::vector<Named> all_;
  std::map<std::string, Open> open_;
  MemberLinks result_;
};

}  // namespace

MemberLinks member_links(const nn::Module& module, const SplitPlan& plan) {
  Plan made(module);
  for (const NamedSplit& line : plan) made.follow(line);
  return made.result();
}

}  // namespace axonn
