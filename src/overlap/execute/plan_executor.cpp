#include "axonn/overlap/execute/plan_executor.hpp"

#include <utility>

#include <ATen/TensorOperators.h>

#include "axonn/coconet/language/program_work.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/core/text.hpp"
#include "overlap/execute/plan_checks.hpp"
#include "overlap/execute/plan_steps.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.executor";
constexpr double kMostOperations = 1e15;

int local_ranks(const Environment& environment) { return environment.local_ranks(); }
int local_ranks(const Communicator&) { return 1; }

}  // namespace

struct PlanExecutor::Impl {
  // `place`: a Communicator or an Environment.
  template <typename Place>
  Impl(SchedulePlan made, Place& place, ExecutorOptions chosen)
      : plan(std::move(made)),
        everyone(plan.program(), place),
        options(checked(std::move(chosen), local_ranks(place))),
        memory(plan, everyone.group(), everyone.number(), options),
        steps(plan, everyone, memory, options) {}

  // Nothing is allocated before.
  ExecutorOptions checked(ExecutorOptions chosen, int sharing) const {
    check_size(plan, chosen.sizes, everyone.group().size(), sharing);
    check_runs(plan, everyone.group().size());
    return chosen;
  }

  SchedulePlan plan;
  ExecutorRanks everyone;
  ExecutorOptions options;
  FlatMemory memory;
  PlanSteps steps;
};

PlanExecutor::PlanExecutor(SchedulePlan plan, Communicator& ranks, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(plan), ranks, std::move(options))) {}

PlanExecutor::PlanExecutor(SchedulePlan plan, Environment& environment, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(plan), environment, std::move(options))) {}

PlanExecutor::~PlanExecutor() = default;

void PlanExecutor::check_size(const SchedulePlan& plan, const SizeValues& sizes, int ranks, int local_ranks) {
  const std::string& name = plan.program().name();
  double bytes = 0;
  for (const PlanBuffer& buffer : plan.buffers()) {
    const auto count = static_cast<double>(count_of(extents_of(buffer.type.shape, sizes)));
    const bool sliced = buffer.type.distribution.is(coconet::Placement::sliced);
    bytes += count * static_cast<double>(bytes_of(buffer.type.element)) / (sliced ? ranks : 1);
  }
  const auto most_bytes = static_cast<double>(free_host_bytes());
  AXONN_CHECK(bytes * local_ranks <= most_bytes, kWhere, name, " needs ", bytes_text(bytes),
              " per rank for its values, ", "on ", local_ranks, " ranks of this host, which has ",
              bytes_text(most_bytes), " free: choose smaller sizes");
  const double operations = work_of(plan.program(), sizes).operations;
  AXONN_CHECK(operations <= kMostOperations, kWhere, name, " needs ", with_unit(operations),
              " operations on single elements in a run, more than ", with_unit(kMostOperations),
              ", which take a day: choose smaller sizes");
}

at::Tensor PlanExecutor::memory(const std::string& value) const {
  const ValueId id = impl_->plan.value(value);
  const BufferId home = impl_->plan.home(id);
  AXONN_CHECK(home, kWhere, value, " stays in registers or messages, or is a number: use number() for it");
  AXONN_CHECK(impl_->memory.has(home), kWhere, value, " is on group ", impl_->plan[id].type.group,
              "; ask its ranks, this one is in group ", impl_->everyone.number());
  return impl_->memory.buffer(home).data;
}

std::vector<Range> PlanExecutor::held(const std::string& value) const {
  (void)memory(value);  // its error
  return impl_->memory.held(impl_->memory.buffer(impl_->plan.home(impl_->plan.value(value))));
}

void PlanExecutor::clear() {
  for (const ValueId id : impl_->plan.values().declarations())
    if (const FlatMemory::Buffer* buffer = impl_->memory.find(impl_->plan.home(id))) buffer->data.zero_();
}

void PlanExecutor::bind(const std::string& tensor, at::Tensor memory) {
  const ValueId id = impl_->plan.values().find(tensor);
  AXONN_CHECK(id && impl_->plan[id].declared && impl_->memory.has(impl_->plan.home(id)), kWhere, "'", tensor,
              "' must be a declared tensor of ", impl_->plan.program().name());
  impl_->memory.bind(impl_->plan.home(id), std::move(memory));
}

void PlanExecutor::set(const std::string& scalar, double value) { impl_->memory.set(scalar, value); }

double PlanExecutor::number(const std::string& value) const {
  const ValueId id = impl_->plan.values().find(value);
  AXONN_CHECK(id && impl_->memory.number(id), kWhere, "'", value, "' must be a number that was set or computed");
  return *impl_->memory.number(id);
}

void PlanExecutor::run() { impl_->steps.run(); }

const SchedulePlan& PlanExecutor::plan() const { return impl_->plan; }

}  // namespace axonn
