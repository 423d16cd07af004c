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
  const Program& program() const { return plan.program(); }

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
  (void)impl_->program().type(value);  // its error
  const std::string& home = impl_->plan.home(value);
  AXONN_CHECK(!home.empty(), kWhere, value, " stays in registers or messages, or is a number: use number() for it");
  AXONN_CHECK(impl_->memory.has(home), kWhere, value, " is on group ", impl_->program().type(value).group,
              "; ask its ranks, this one is in group ", impl_->everyone.number());
  return impl_->memory.buffer(home).data;
}

std::vector<Range> PlanExecutor::held(const std::string& value) const {
  (void)memory(value);  // its error
  return impl_->memory.held(impl_->memory.buffer(impl_->plan.home(value)));
}

void PlanExecutor::clear() {
  for (const PlanBuffer& buffer : impl_->plan.buffers())
    if (buffer.declared && impl_->memory.has(buffer.name)) impl_->memory.buffer(buffer.name).data.zero_();
}

void PlanExecutor::bind(const std::string& tensor, at::Tensor memory) {
  AXONN_CHECK(impl_->program().find_declaration(tensor) != nullptr && impl_->memory.has(tensor), kWhere, "'", tensor,
              "' must be a declared tensor of ", impl_->program().name());
  impl_->memory.bind(tensor, std::move(memory));
}

void PlanExecutor::set(const std::string& scalar, double value) { impl_->memory.set(scalar, value); }

double PlanExecutor::number(const std::string& value) const {
  const auto found = impl_->memory.numbers.find(value);
  AXONN_CHECK(found != impl_->memory.numbers.end(), kWhere, "'", value, "' must be a number that was set or computed");
  return found->second;
}

void PlanExecutor::run() { impl_->steps.run(); }

const SchedulePlan& PlanExecutor::plan() const { return impl_->plan; }

}  // namespace axonn
