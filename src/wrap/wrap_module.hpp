#pragma once

#include "axonn/wrap/shard.hpp"
#include "wrap/parallel_plan.hpp"

namespace axonn {

// The common part of shard() and parallelize(). `plan_for` says what becomes a layer; it
// runs on every rank and must not communicate.
WrappedModule wrap_module(Context& context, torch::nn::Module& module, const ShardOptions& options,
                          const std::function<ParallelPlan()>& plan_for);

}  // namespace axonn
