#pragma once

#include <map>
#include <set>

#include <torch/nn/module.h>

#include "axonn/wrap/member.hpp"
#include "axonn/wrap/split_plan.hpp"

namespace axonn {

// The members of a module that take another's split output: by keep_split(), and by a plan.
struct MemberLinks {
  std::map<const MemberBase*, MemberBase::Links> links;  // one for every typed member
  std::set<const torch::nn::Module*> whole;              // divided by nothing
};

// UserError as SplitPlan says.
MemberLinks member_links(const torch::nn::Module& module, const SplitPlan& plan);

}  // namespace axonn
