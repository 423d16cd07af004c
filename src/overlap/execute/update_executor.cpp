#include "axonn/overlap/execute/update_executor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "overlap/execute/executor_memory.hpp"
#include "overlap/execute/update_chunks.hpp"
#include "overlap/execute/update_loop.hpp"
#include "overlap/execute/update_memory.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.update";

}  // namespace

struct UpdateExecutor::Impl : std::enable_shared_from_this<Impl> {
  Impl(const UpdateProgram& optimizer, UpdateSchedule chosen, UpdatedNetwork updated, const RunSettings& settings,
       InstructionSet instruction_set);

  const Program& program() const { return plan.program(); }
  const Expression& root_of(const std::string& statement) const { return program().statement(statement).expression; }
  bool reduces_gradients(const PlanStep& step) const {
    return !step.reducer.empty() && root_of(step.reducer).operands()[0].name() == gradients;
  }

  template <typename Visit>
  void for_each_own(Visit visit) const {
    for (const UpdateRegion& region : memory.regions())
      for (const Range& range : region.own) memory.for_each_part(range, [&](Range part) { visit(region, part); });
  }
  template <typename Visit>
  void for_each_element(Visit visit) const {
    for (const UpdateRegion& region : memory.regions())
      memory.for_each_part(region.range, [&](Range part) { visit(region, part); });
  }

  void bind_weights();
  void hook_sums();
  Request sum(const GradientBucket& bucket);
  const UpdateRegion& region_of(Range range) const;

  bool stores_own(std::string_view tensor) const {
    return memory.buffer(std::string(tensor)).kind == UpdateMemory::Kind::own;
  }
  void for_each_stored(std::string_view tensor, const std::function<void(const at::Tensor&, const at::Tensor&)>& visit);
  void publish(bool of_owners);
  void hand_over(std::vector<WrittenRange> ranges);
  WrittenRange gather(const UpdateMemory::Buffer& buffer, const UpdateChunk& chunk, Epilogue epilogue);

  void begin_cycle();
  void run(size_t index);
  void run_sums(UpdateLoop* loop);
  void run_kernel(UpdateLoop& loop);
  void run_collective(const PlanStep& step);
  void run_gather(const PlanStep& step, UpdateLoop* loop);
  void combine_sums(const UpdateLoop& loop);
  void combine(const std::string& statement, const std::string& partial, ReduceOp reduction, bool root);

  UpdatedNetwork network;
  Scheduler& scheduler;
  SchedulePlan plan;
  std::string name, gradients, weights, master;
  int64_t segment_bytes;
  UpdateMemory memory;
  std::vector<std::unique_ptr<UpdateLoop>> loops;  // per step; null: it computes nothing
  std::vector<bool> done;                          // per step, in this cycle
  size_t sums_step = 0, norm_step = 0;
  int64_t summed_step = -1;  // whose sums have begun; -1: none
  bool poisoned = false;     // this rank gives NaN to every reduction
  bool updates_with_sums = false, prepared = false;
  std::vector<WrittenRange> written;
};

UpdateExecutor::Impl::Impl(const UpdateProgram& optimizer, UpdateSchedule chosen, UpdatedNetwork updated,
                           const RunSettings& settings, InstructionSet instruction_set)
    : network(updated),
      scheduler(updated.schedule.scheduler()),
      plan(optimizer.scheduled(chosen).program()),
      name(optimizer.name()),
      gradients(optimizer.gradients()),
      weights(optimizer.weights()),
      master(optimizer.master()),
      segment_bytes(settings.segment_bytes),
      memory(plan, updated.arena, updated.grid, updated.rank),
      done(plan.steps().size()) {
  for (const Declaration& declaration : program().declarations())
    if (declaration.value) memory.numbers[declaration.name] = *declaration.value;
  bind_weights();
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const PlanStep& step = plan.steps()[i];
    loops.push_back(step.computes() ? std::make_unique<UpdateLoop>(plan, step, memory, settings, instruction_set)
                                    : nullptr);
    if (reduces_gradients(step)) sums_step = i;
    if (std::ranges::count(step.statements, kGradientNorm) > 0) norm_step = i;
  }
  const PlanStep& sums = plan.steps()[sums_step];
  updates_with_sums = sums.kind == StepKind::fused && std::ranges::any_of(sums.statements, [&](const std::string& one) {
                        return program().type(one).distribution.is(coconet::Placement::sliced) &&
                               !plan.home(one).empty() && one != sums.reducer;
                      });
}

// The arena holds the weights, and the master weights while they are whole.
void UpdateExecutor::Impl::bind_weights() {
  Arena& arena = network.arena;
  if (arena.is_scattered())
    memory.bind(weights, arena.scattered_weights());
  else
    memory.bind(weights, arena.weights());
  if (master == weights) return;
  const UpdateMemory::Buffer &wide = memory.buffer(master), &rounded = memory.buffer(weights);
  if (arena.is_scattered())
    return for_each_own([&](const UpdateRegion& region, Range range) {
      memory.narrowed(wide, region, range).copy_(memory.narrowed(rounded, region, range));
    });
  if (wide.kind == UpdateMemory::Kind::arena) return memory.bind(master, arena.master());
  for_each_own([&](const UpdateRegion& region, Range range) {
    memory.narrowed(wide, region, range).copy_(arena.master().narrow(0, range.begin, range.size()));
  });
  arena.release_master();
}

// Sums over replicas are this program's: plain all-reduces stay the network's own.
void UpdateExecutor::Impl::hook_sums() {
  const PlanStep& step = plan.steps()[sums_step];
  if (root_of(step.reducer).is(Operation::all_reduce)) return;
  network.schedule.sum_buckets_by(
      [self = shared_from_this()](const GradientBucket& bucket) { return self->sum(bucket); }, updates_with_sums);
}

const UpdateRegion& UpdateExecutor::Impl::region_of(Range range) const {
  const auto region = std::ranges::find_if(memory.regions(), [&](const UpdateRegion& one) {
    return one.range.begin <= range.begin && range.end <= one.range.end;
  });
  AXONN_ASSERT(region != memory.regions().end(), range.begin, " to ", range.end);
  return *region;
}

void UpdateExecutor::Impl::begin_cycle() {
  if (std::exchange(summed_step, scheduler.steps_begun()) == scheduler.steps_begun()) return;
  AXONN_CHECK(!updates_with_sums || prepared, kWhere, name,
              ": this schedule updates weights during backward; call prepare() of the optimizer before it");
  std::fill(done.begin(), done.end(), false);
  for (const size_t before : plan.steps()[sums_step].after) run(before);
  if (UpdateLoop* loop = loops[sums_step].get()) loop->begin();
}

Request UpdateExecutor::Impl::sum(const GradientBucket& bucket) {
  begin_cycle();
  FusedCollective collective{.contributions = memory.elements(memory.buffer(gradients), bucket.range), .results = {}};
  if (const std::string& mover = plan.steps()[sums_step].mover; !mover.empty())
    collective.results = memory.elements(memory.buffer(plan.home(mover)), bucket.range);
  if (UpdateLoop* loop = loops[sums_step].get())
    collective.epilogue = [self = shared_from_this(), loop, &region = region_of(bucket.range),
                           begin = bucket.range.begin](int64_t place, int64_t count, const void* sums, void* results) {
      loop->run(region, begin + place, count, sums, results);
    };
  return network.communicators[bucket.axes].fused(collective, {.priority = queue_of(Traffic::data),
                                                               .after = bucket.after,
                                                               .tag = "gradients",
                                                               .arena_offset = bucket.range.begin,
                                                               .segment_bytes = segment_bytes});
}

void UpdateExecutor::Impl::run(size_t index) {
  if (done[index]) return;
  const PlanStep& step = plan.steps()[index];
  for (const size_t before : step.after) run(before);
  done[index] = true;
  UpdateLoop* loop = loops[index].get();
  if (index == sums_step) return run_sums(loop);
  if (!step.mover.empty()) return run_gather(step, loop);
  if (step.kind == StepKind::collective) return run_collective(step);
  run_kernel(*loop);
}

// The buckets are summed; regions that one rank holds have no buckets.
void UpdateExecutor::Impl::run_sums(UpdateLoop* loop) {
  if (loop == nullptr) return;
  for (const UpdateRegion& region : memory.regions())
    if (!region.shared()) loop->run_region(region);
  loop->finish();
}

void UpdateExecutor::Impl::run_kernel(UpdateLoop& loop) {
  loop.begin();
  if (loop.over_elements())
    for (const UpdateRegion& region : memory.regions()) loop.run_region(region);
  else
    loop.run_numbers();
  loop.finish();
  combine_sums(loop);
}

void UpdateExecutor::Impl::combine_sums(const UpdateLoop& loop) {
  for (const StepKernel::Sum& sum : loop.kernel().sums) {
    const TensorType& type = program().type(sum.statement);
    if (type.distribution.is(coconet::Placement::local)) continue;  // a later statement adds the ranks' results
    combine(sum.statement, sum.statement, sum.reduction, sum.is_norm);
  }
}

// The results of all ranks, each of which has reduced what it owns.
void UpdateExecutor::Impl::combine(const std::string& statement, const std::string& partial, ReduceOp reduction,
                                   bool root) {
  at::Tensor results = at::tensor(at::ArrayRef<double>(memory.partials.at(partial)), at::kDouble);
  if (poisoned) results.fill_(std::numeric_limits<double>::quiet_NaN());
  results = scheduler.all_reduce(results, AxisSet::all(), statement, reduction).wait();
  const std::span<double> numbers(results.mutable_data_ptr<double>(), static_cast<size_t>(results.numel()));
  if (root)  // correctly rounded, as in a stage; a library's is not always
    for (double& number : numbers) number = std::sqrt(number);
  if (program().type(statement).is_scalar())
    memory.numbers[statement] = numbers[0];
  else
    memory.buffer(plan.home(statement)).data.copy_(results);
}

void UpdateExecutor::Impl::run_collective(const PlanStep& step) {
  const Expression& root = root_of(step.reducer);
  combine(step.reducer, root.operands()[0].name(), root.attributes().reduction, /*root=*/false);
}

WrittenRange UpdateExecutor::Impl::gather(const UpdateMemory::Buffer& buffer, const UpdateChunk& chunk,
                                          Epilogue epilogue) {
  const FusedCollective collective{
      .contributions = {}, .results = memory.elements(buffer, chunk.range), .epilogue = std::move(epilogue)};
  Request request = network.communicators[chunk.region->axes].fused(collective, {.priority = queue_of(Traffic::update),
                                                                                 .after = {},
                                                                                 .tag = "weights",
                                                                                 .arena_offset = chunk.range.begin,
                                                                                 .segment_bytes = segment_bytes});
  return {chunk.range,
          scheduler.logged(Traffic::update, chunk.region->axes, static_cast<int64_t>(collective.results.nbytes()),
                           "weights", std::move(request))};
}

// The elements of a state tensor that this rank stores, beside the master weights.
void UpdateExecutor::Impl::for_each_stored(std::string_view tensor,
                                           const std::function<void(const at::Tensor&, const at::Tensor&)>& visit) {
  network.schedule.wait_for_weights();
  const UpdateMemory::Buffer &wide = memory.buffer(master), &other = memory.buffer(std::string(tensor));
  const auto both = [&](const UpdateRegion& region, Range range) {
    visit(memory.narrowed(wide, region, range), memory.narrowed(other, region, range));
  };
  other.kind == UpdateMemory::Kind::arena ? for_each_element(both) : for_each_own(both);
}

// Master weights -> weights; `of_owners`: only own ones are right, so the others' are gathered.
void UpdateExecutor::Impl::publish(bool of_owners) {
  network.schedule.wait_for_weights();
  const UpdateMemory::Buffer &wide = memory.buffer(master), &rounded = memory.buffer(weights);
  const auto round = [&](const UpdateRegion& region, Range range) {
    memory.narrowed(rounded, region, range).copy_(memory.narrowed(wide, region, range));
  };
  if (master != weights) of_owners ? for_each_own(round) : for_each_element(round);
  if (!of_owners) return network.schedule.weights_written();
  std::vector<WrittenRange> ranges;
  for (const UpdateChunk& chunk : update_chunks(network.arena, memory.regions(), scheduler.policy()))
    ranges.push_back(gather(rounded, chunk, {}));
  hand_over(std::move(ranges));
}

// Plain modules read scattered weights without asking whether they are there.
void UpdateExecutor::Impl::hand_over(std::vector<WrittenRange> ranges) {
  network.schedule.weights_written(std::move(ranges));
  if (network.arena.is_scattered()) network.schedule.wait_for_weights();
}

// Chunk by chunk, in the order in which the next forward pass needs the weights.
void UpdateExecutor::Impl::run_gather(const PlanStep& step, UpdateLoop* loop) {
  if (loop != nullptr) loop->begin();
  const UpdateMemory::Buffer& gathered = memory.buffer(plan.home(step.mover));
  for (const UpdateChunk& chunk : update_chunks(network.arena, memory.regions(), scheduler.policy())) {
    Epilogue epilogue;
    if (loop != nullptr)
      epilogue = [self = shared_from_this(), loop, chunk](int64_t place, int64_t count, const void* sums,
                                                          void* results) {
        loop->run(*chunk.region, chunk.range.begin + place, count, sums, results);
      };
    written.push_back(gather(gathered, chunk, std::move(epilogue)));
  }
  if (loop == nullptr) return;
  for (const UpdateRegion& region : memory.regions())
    if (!region.shared()) loop->run_region(region);
  if (loop->kernel().sums.empty()) return;
  for (const WrittenRange& range : written) scheduler.wait(range.valid_at);  // then all elements are reduced
  loop->finish();
  combine_sums(*loop);
}

UpdateExecutor::UpdateExecutor(const UpdateProgram& program, UpdateSchedule schedule, UpdatedNetwork network,
                               const RunSettings& settings, InstructionSet instruction_set)
    : impl_(std::make_shared<Impl>(program, schedule, network, settings, instruction_set)) {
  impl_->hook_sums();
}

UpdateExecutor::~UpdateExecutor() {
  try {
    impl_->network.schedule.wait_for_weights();
    impl_->network.schedule.sum_buckets_by(nullptr);
  } catch (const std::exception&) {
    // A step or a collective has failed, and this error is on its way.
  }
}

void UpdateExecutor::set(std::string_view scalar, double value) {
  const Declaration* declaration = impl_->program().find_declaration(scalar);
  AXONN_CHECK(declaration != nullptr && declaration->type.is_scalar(), kWhere, "'", scalar,
              "' must be a declared scalar of ", impl_->name);
  impl_->memory.numbers[std::string(scalar)] = value;
}

void UpdateExecutor::set_rows(std::string_view tensor, std::span<const double> values) {
  const at::Tensor& rows = impl_->memory.buffer(std::string(tensor)).data;
  rows.copy_(at::tensor(at::ArrayRef<double>(values.data(), values.size()), at::kDouble));
}

bool UpdateExecutor::updates_with_sums() const { return impl_->updates_with_sums; }

void UpdateExecutor::prepare() {
  impl_->network.schedule.wait_for_weights();
  impl_->prepared = true;
}

double UpdateExecutor::gradient_norm(bool poisoned) {
  Impl& impl = *impl_;
  const at::NoGradGuard no_grad;
  impl.network.schedule.wait_for_weights();
  impl.begin_cycle();
  impl.summed_step = -1;
  impl.prepared = false;
  impl.poisoned = poisoned;
  impl.run(impl.norm_step);
  impl.poisoned = false;
  return impl.memory.numbers.find(kGradientNorm)->second;
}

void UpdateExecutor::update() {
  Impl& impl = *impl_;
  const at::NoGradGuard no_grad;
  impl.written.clear();
  for (size_t i = 0; i < impl.plan.steps().size(); ++i) impl.run(i);
  impl.hand_over(std::exchange(impl.written, {}));
}

void UpdateExecutor::master_changed() {
  const at::NoGradGuard no_grad;
  impl_->publish(impl_->stores_own(impl_->master));
}

void UpdateExecutor::fill(std::string_view tensor, double value) {
  const at::NoGradGuard no_grad;
  impl_->network.schedule.wait_for_weights();
  impl_->memory.buffer(std::string(tensor)).data.fill_(value);
}

void UpdateExecutor::copy_master_to(std::string_view tensor) {
  const at::NoGradGuard no_grad;
  impl_->for_each_stored(tensor, [](const at::Tensor& master, const at::Tensor& other) { other.copy_(master); });
}

void UpdateExecutor::exchange_master(std::string_view tensor) {
  const at::NoGradGuard no_grad;
  impl_->for_each_stored(tensor, [](const at::Tensor& master, const at::Tensor& other) {
    const at::Tensor kept = master.clone();
    master.copy_(other);
    other.copy_(kept);
  });
  impl_->publish(impl_->stores_own(tensor));
}

std::vector<UpdateExecutor::State> UpdateExecutor::state() const {
  std::vector<State> all;
  const auto add = [&](const std::string& tensor) {
    const UpdateMemory::Buffer& buffer = impl_->memory.buffer(tensor);
    all.push_back({tensor, buffer.data, buffer.kind == UpdateMemory::Kind::own});
  };
  add(impl_->master);
  for (const PlanBuffer& planned : impl_->plan.buffers())
    if (planned.updated && planned.name != impl_->master && planned.name != impl_->weights) add(planned.name);
  return all;
}

const SchedulePlan& UpdateExecutor::plan() const { return impl_->plan; }

}  // namespace axonn
